"""Vectors through one component, at the speed of compiled code.

A component becomes Verilog, Verilog becomes C++ (Verilator), C++ becomes a shared library with
one function that clocks the model through arrays. Python is not in the loop.
"""

import ctypes
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from amaranth.hdl import Shape, Value
from amaranth.lib import wiring
from numpy.typing import ArrayLike, NDArray

from hw.sim import cache, runtime, toolchain
from hw.sim.emit import emit
from hw.sim.runtime import COMPILER

VERILATOR = """
    --cc --top-module top --prefix Vtop -O3 --x-assign fast --x-initial fast --noassert
    -Wno-fatal -Wno-lint -Wno-style --no-timing
""".split()


@dataclass(frozen=True)
class Port:
    """One port of the Verilog module.

    Parameters
    ----------
    name : str
        Its name.
    width : int
        Bits; above 64 a value is ``ceil(width / 32)`` 32-bit words, lowest first.
    is_input : bool
        Whether the simulation drives it.
    """

    name: str
    width: int
    is_input: bool

    @property
    def member(self) -> str:
        """Its name in the C++ model, where two underscores would be Verilator's own."""
        return self.name.replace("__", "___05F")

    @property
    def words(self) -> int:
        """32-bit words of a wide value, 0 for one that fits a machine integer."""
        return -(-self.width // 32) if self.width > 64 else 0

    @property
    def dtype(self) -> np.dtype:
        """Of the array that holds the port's values."""
        if self.words:
            return np.dtype(np.uint32)
        return np.dtype(f"u{next(size for size in (1, 2, 4, 8) if self.width <= 8 * size)}")

    def empty(self, cycles: int) -> NDArray:
        """Return zeros for `cycles` values."""
        return np.zeros((cycles, self.words) if self.words else cycles, self.dtype)


class Simulator:
    """A component, compiled.

    Parameters
    ----------
    component : amaranth.lib.wiring.Component
        What to simulate. Its domain is ``sync``. Structured ports are plain numbers here, the
        first member lowest.
    gated : bool
        Whether parts of it that rest have no clock; see `hw.common.resting`.

    Attributes
    ----------
    ports : tuple of Port
        Its ports; a member of a nested signature is ``outer__inner``.

    Raises
    ------
    hw.sim.toolchain.ToolError
        If a tool is missing or fails.
    """

    def __init__(self, component: wiring.Component, *, gated: bool = False) -> None:
        tools = toolchain.find()
        self.ports = _ports(component)
        text = emit(component, gated=gated)
        clocked = re.search(r"^\s*input clk;", text, re.MULTILINE) is not None
        driver = _driver(self.ports, clocked)
        contents = [tools.versions, text, driver, *VERILATOR, *COMPILER]
        name = type(component).__name__.lower()
        built = cache.obtain(name, contents, partial(_build, tools, text, driver))
        self._run = ctypes.CDLL(str(built / "model.so")).run
        self._run.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
        self._run.restype = None

    def cycles(self, count: int | None = None, /, **inputs: ArrayLike) -> dict[str, NDArray]:
        """Clock the model, from its initial state, once per element of the inputs.

        Parameters
        ----------
        count : int, optional
            Cycles to run; past the end of the inputs, each is zero. The default is the length
            of the longest input.
        **inputs : array_like
            Values of each input port, shape (n,), or (n, words) for a port above 64 bits; a
            scalar holds for the whole run.

        Returns
        -------
        dict of str to numpy.ndarray
            For every output port its value in each cycle, before the clock edge that ends it.

        Raises
        ------
        ValueError
            If a port is missing, unknown, or given an array of another shape or values too large.
        """
        known = {port.name: port for port in self.ports if port.is_input}
        if inputs.keys() != known.keys():
            raise ValueError(f"inputs must be {sorted(known)}, not {sorted(inputs)}")
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        scalars = {name for name, array in arrays.items() if array.ndim == 0}
        if count is None:
            lengths = [len(array) for name, array in arrays.items() if name not in scalars]
            count = max(lengths, default=0)
        driven = []
        for name, port in known.items():
            array = arrays[name]
            values = port.empty(count)
            length = count if name in scalars else len(array)
            if length > count or (name not in scalars and array.shape[1:] != values.shape[1:]):
                raise ValueError(f"{name} must have shape {values.shape}, not {array.shape}")
            if not port.words and array.size and int(array.max()) >> port.width:
                raise ValueError(f"{name} holds {array.max()}, above its {port.width} bits")
            values[:length] = array.astype(port.dtype, copy=False)
            driven.append(values)
        result = {port.name: port.empty(count) for port in self.ports if not port.is_input}
        self._run(count, _pointers(driven), _pointers(list(result.values())))
        return result

    def stream(self, latency: int, **inputs: ArrayLike) -> dict[str, NDArray]:
        """Like `cycles`, for a pipeline: element ``n`` of an output belongs to inputs ``n``.

        Parameters
        ----------
        latency : int
            Clock edges from an input to its output.
        **inputs : array_like
            As for `cycles`.

        Returns
        -------
        dict of str to numpy.ndarray
            As for `cycles`, `latency` cycles later.
        """
        count = max(len(np.atleast_1d(value)) for value in inputs.values())
        raw = self.cycles(count + latency, **inputs)
        return {name: values[latency:] for name, values in raw.items()}


def _ports(component: wiring.Component) -> tuple[Port, ...]:
    return tuple(
        Port("__".join(str(part) for part in path), _width(value), member.flow is wiring.In)
        for path, member, value in component.signature.flatten(component)
    )


def _width(value: object) -> int:
    return Shape.cast(Value.cast(value).shape()).width


def _pointers(arrays: list[NDArray]) -> ctypes.Array:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


C_TYPES = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}


def _driver(ports: tuple[Port, ...], clocked: bool) -> str:
    """Return the C++ that clocks the model through arrays."""

    def transfers(is_input: bool) -> list[str]:
        lines = []
        for index, port in enumerate(port for port in ports if port.is_input is is_input):
            qualifier, array = ("const ", "in") if is_input else ("", "out")
            data = f"static_cast<{qualifier}{C_TYPES[port.dtype.itemsize]} *>({array}[{index}])"
            for word in range(max(port.words, 1)):
                place = f"{data}[t * {max(port.words, 1)} + {word}]"
                member = f"model->{port.member}" + (f"[{word}]" if port.words else "")
                lines.append(f"{member} = {place};" if is_input else f"{place} = {member};")
        return lines

    body = [
        *transfers(True),
        *(["model->clk = 0;"] if clocked else []),
        "model->eval();",
        *transfers(False),
        *(["model->clk = 1;", "model->eval();"] if clocked else []),
    ]
    return f"""#include <memory>
#include "Vtop.h"
extern "C" __attribute__((visibility("default")))
void run(uint64_t cycles, const void *const *in, void *const *out) {{
    const auto context = std::make_unique<VerilatedContext>();
    const auto model = std::make_unique<Vtop>(context.get());
    {"model->rst = 0;" if clocked else ""}
    for (uint64_t t = 0; t < cycles; ++t) {{
        {(chr(10) + " " * 8).join(body)}
    }}
    model->final();
}}
"""


def _build(tools: toolchain.Toolchain, text: str, driver: str, work: Path) -> None:
    (work / "top.v").write_text(text)
    environment = {**os.environ, "VERILATOR_ROOT": str(tools.verilator_root)}
    command = [str(tools.verilator), *VERILATOR, "--Mdir", ".", "top.v"]
    toolchain.run(command, cwd=work, env=environment)
    sources = sorted(path.name for path in work.glob("Vtop*.cpp"))
    (work / "model.cpp").write_text(
        driver + "".join(f'#include "{source}"\n' for source in sources)
    )
    command = [tools.compiler, *COMPILER, *runtime.includes(tools), "-shared", "-o", "model.so"]
    command += ["model.cpp", *runtime.objects(tools), "-pthread", "-latomic"]
    toolchain.run(command, cwd=work)
