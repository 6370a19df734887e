"""The simulator of a whole machine: emitted, verilated and compiled once, then kept.

Three steps are cached apart. The Verilog belongs to a configuration and to every source file that
describes hardware; the model belongs to that text, so a changed comment costs no compilation; the
library is the model with what drives it.
"""

import enum
import hashlib
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hw.sim import cache, runtime, toolchain
from hw.sim.runtime import COMPILER
from kohakuaccel.runtime.progress import notice
from kohakutpu.config import Machine

ROOT = Path(__file__).parents[2]
DESCRIBED = (
    "hw",
    "kohakutpu/config.py",
    "kohakutpu/control.py",
    "kohakutpu/isa",
    "kohakutpu/numerics",
    "kohakuaccel/isa",
)
"""What the Verilog of a configuration depends on; of ``hw/sim`` only `DESCRIBING`."""

DESCRIBING = ("emit.py", "testbench.py")

DESCRIPTION = ("visible.vlt", "axi_ram.v")
"""Sources that Verilator reads beside the machine."""

DRIVER = ("ram.h", "ram.cpp", "driver.cpp")
VERILATOR = """
    --cc --top-module top --prefix Vtop -O3 --no-timing --output-split 40000
    -Wno-fatal -Wno-lint -Wno-style
""".split()


class Variant(enum.Enum):
    """What a simulator is built for."""

    FAST = "fast"
    """Parts at rest have no clock; the other variants are as plain as what is synthesised."""
    CHECKED = "checked"
    """Assertions are on, and what nothing sets starts at random."""
    WAVES = "waves"
    """Can write waves; several times slower even while it does not."""


FLAGS = {
    Variant.FAST: "--x-assign fast --x-initial fast --noassert".split(),
    Variant.CHECKED: "--x-assign unique --x-initial unique --assert".split(),
    Variant.WAVES: "--x-assign fast --x-initial fast --noassert --trace-vcd".split(),
}


def digest() -> str:
    """Return a hash of every source that describes the hardware."""
    result = hashlib.sha256()
    for part in DESCRIBED:
        path = ROOT / part
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            folder = name.rpartition("/")[0]
            if folder == "hw/synth" or (folder == "hw/sim" and file.name not in DESCRIBING):
                continue
            result.update(f"{name}\0".encode() + file.read_bytes() + b"\0")
    return result.hexdigest()


def verilog(
    machine: Machine, make: Callable[..., Any] | None = None, *, gated: bool = False
) -> str:
    """Return the Verilog of a machine with its memory, without ``axi_ram.v``.

    Parameters
    ----------
    machine : Machine
        Which.
    make : callable, optional
        Other datapaths, as for `hw.top.Top`; what they emit is not cached.
    gated : bool
        Whether parts that rest have no clock; see `hw.common.resting`.

    Raises
    ------
    hw.sim.toolchain.ToolError
        If a tool is missing or fails, or a source changes meanwhile.
    """
    if make is not None:
        # Needed to build, not to run what is built, and slow to import.
        from hw.sim.emit import emit
        from hw.sim.testbench import Testbench

        return emit(Testbench(machine, make), gated=gated)
    tools, sources = toolchain.find(), digest()
    clocks = "gated" if gated else "plain"

    def fill(work: Path) -> None:
        # A process of its own reads the sources as they are now, not as they were when this one
        # imported them; and takes its memory with it.
        values = json.dumps(asdict(machine))
        command = [sys.executable, "-m", "hw.sim.testbench", values, clocks, str(work / "top.v")]
        toolchain.run(command, cwd=ROOT)
        if digest() != sources:
            raise toolchain.ToolError(
                f"the sources of the hardware changed while {machine.name} was described from "
                "them; nothing was kept: run it again"
            )

    with notice(f"describing {machine.name} in Verilog"):
        folder = cache.obtain(
            f"verilog-{machine.hash}-{clocks}",
            [tools.versions, machine.hash, sources, clocks],
            fill,
        )
    return (folder / "top.v").read_text()


def build(
    machine: Machine,
    make: Callable[..., Any] | None = None,
    name: str = "",
    *,
    variant: Variant = Variant.FAST,
) -> Path:
    """Return the shared library that simulates a machine, built if the cache has none.

    Parameters
    ----------
    machine : Machine
        Which.
    make : callable, optional
        As for `verilog`.
    name : str
        Start of the folder's name, for people; the machine's by default.
    variant : Variant
        What for.

    Raises
    ------
    hw.sim.toolchain.ToolError
        If a tool is missing, of a wrong version, or fails.
    """
    tools = toolchain.find()
    text = verilog(machine, make, gated=variant is Variant.FAST)
    flags = [*VERILATOR, *FLAGS[variant]]
    label = f"{name or machine.name}-{variant.value}"
    described = [_source(name) for name in DESCRIPTION]
    driver = [_source(name) for name in DRIVER]
    with notice(f"building the {variant.value} simulator of {machine.name}"):
        model = cache.obtain(
            f"model-{label}",
            [tools.versions, text, *described, *flags, *COMPILER],
            partial(_verilate, tools, text, flags, variant),
        )
        linked = cache.obtain(
            f"machine-{label}",
            [model.name, *driver],
            partial(_link, tools, model, variant),
        )
    return linked / "machine.so"


def _source(name: str) -> str:
    return (Path(__file__).parent / name).read_text()


def _options(tools: toolchain.Toolchain, variant: Variant, headers: Path) -> list[str]:
    """Return how C++ is compiled."""
    traced = runtime.TRACED if variant is Variant.WAVES else ()
    return [tools.compiler, *COMPILER, *traced, f"-I{headers}", *runtime.includes(tools)]


def _compile(command: list[str], work: Path) -> list[str]:
    """Compile every C++ file of a folder and return the names of the objects."""
    # The largest first: the others fill up the time.
    sources = sorted(work.glob("*.cpp"), key=lambda path: -path.stat().st_size)

    def compiled(source: Path) -> str:
        once = ["-O0"] if source.stem.endswith("__Slow") else []  # runs at the start only
        toolchain.run([*command, *once, "-c", source.name], cwd=work)
        source.unlink()
        return f"{source.stem}.o"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return sorted(pool.map(compiled, sources))


def _verilate(
    tools: toolchain.Toolchain, text: str, flags: list[str], variant: Variant, work: Path
) -> None:  # fmt: skip
    """Fill a folder with the objects of a model and the headers that describe it."""
    (work / "top.v").write_text(text)
    for name in DESCRIPTION:
        (work / name).write_text(_source(name))
    environment = {**os.environ, "VERILATOR_ROOT": str(tools.verilator_root)}
    command = [str(tools.verilator), *flags, "--Mdir", ".", *DESCRIPTION, "top.v"]
    toolchain.run(command, cwd=work, env=environment)
    _compile(_options(tools, variant, work), work)


def _link(tools: toolchain.Toolchain, model: Path, variant: Variant, work: Path) -> None:
    """Fill a folder with the library of a model and what drives it."""
    for name in DRIVER:
        (work / name).write_text(_source(name))
    options = _options(tools, variant, model)
    objects = [*_compile(options, work), *(str(path) for path in sorted(model.glob("*.o")))]
    objects += runtime.objects(tools, traced=variant is Variant.WAVES)
    command = [*options, "-shared", "-o", "machine.so", *objects]
    toolchain.run([*command, "-pthread", "-latomic"], cwd=work)
    for path in work.glob("*.o"):
        path.unlink()
