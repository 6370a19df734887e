"""A component, compiled, that a test or a device clocks step by step."""

import ctypes
import re
from functools import partial
from typing import Self

from amaranth.lib import wiring

from hw.sim import cache, toolchain
from hw.sim.emit import emit
from hw.sim.runtime import COMPILER
from hw.sim.simulator import VERILATOR, Port, _build, _ports

C_TYPES = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}


class Session:
    """One model that lives from call to call.

    Parameters
    ----------
    component : amaranth.lib.wiring.Component
        What to simulate, clocked by ``sync``. Ports are plain numbers, as in `Simulator`.

    Attributes
    ----------
    ports : dict of str to Port
        Its ports.

    Raises
    ------
    hw.sim.toolchain.ToolError
        If a tool is missing or fails.
    """

    def __init__(self, component: wiring.Component) -> None:
        tools = toolchain.find()
        ports = _ports(component)
        self.ports = {port.name: port for port in ports}
        text = emit(component)
        if re.search(r"^\s*input clk;", text, re.MULTILINE) is None:
            raise ValueError(f"{type(component).__name__} has no clock: nothing to step")
        driver = _driver(ports)
        contents = [tools.versions, text, driver, *VERILATOR, *COMPILER]
        name = f"{type(component).__name__.lower()}-session"
        built = cache.obtain(name, contents, partial(_build, tools, text, driver))
        library = ctypes.CDLL(str(built / "model.so"))
        library.start.restype = ctypes.c_void_p
        library.settle.argtypes = library.finish.argtypes = [ctypes.c_void_p]
        library.advance.argtypes = [ctypes.c_void_p]
        library.value.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
        library.value.restype = ctypes.c_void_p
        self._library, self._model = library, None
        self.restart()

    def __setitem__(self, name: str, value: int) -> None:
        """Drive an input."""
        place = self._places[name]
        if self.ports[name].words:
            place[:] = value.to_bytes(len(place), "little")
        else:
            place.value = value

    def __getitem__(self, name: str) -> int:
        """Return the value of a port, as `settle` left it."""
        place = self._places[name]
        return int.from_bytes(place, "little") if self.ports[name].words else place.value

    def settle(self) -> None:
        """Let outputs follow inputs."""
        self._library.settle(self._model)

    def advance(self) -> None:
        """Clock it once."""
        self._library.advance(self._model)
        self.cycle += 1

    def restart(self) -> None:
        """Begin again, in the initial state."""
        self.close()
        self._model = self._library.start()
        self._places = {
            name: _place(port, self._library.value(self._model, index))
            for index, (name, port) in enumerate(self.ports.items())
        }
        self.cycle = 0

    def close(self) -> None:
        """Free the model."""
        if self._model is not None:
            self._places = {}
            self._library.finish(self._model)
            self._model = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Free the model."""
        self.close()


def _place(port: Port, address: int) -> ctypes.Array | ctypes._SimpleCData:
    if port.words:
        return (ctypes.c_uint8 * (4 * port.words)).from_address(address)
    return C_TYPES[port.dtype.itemsize].from_address(address)


def _driver(ports: tuple[Port, ...]) -> str:
    """Return the C++ that hands out the model and its ports."""
    cases = [f"case {n}: return &of(model).{port.member};" for n, port in enumerate(ports)]
    return f"""#include <memory>
#include "Vtop.h"
#define VISIBLE extern "C" __attribute__((visibility("default")))
struct Model {{ VerilatedContext context; Vtop top{{&context}}; }};
static Vtop &of(void *model) {{ return static_cast<Model *>(model)->top; }}
VISIBLE void *start() {{
    auto *model = new Model;
    model->top.rst = 0;
    return model;
}}
VISIBLE void settle(void *model) {{ of(model).clk = 0; of(model).eval(); }}
VISIBLE void advance(void *model) {{
    settle(model);
    of(model).clk = 1;
    of(model).eval();
}}
VISIBLE void finish(void *model) {{ of(model).final(); delete static_cast<Model *>(model); }}
VISIBLE void *value(void *model, uint32_t port) {{
    switch (port) {{
        {(chr(10) + " " * 8).join(cases)}
    }}
    return nullptr;
}}
"""
