"""What all compiled models share: Verilator's runtime, and how C++ is compiled."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from hw.sim import cache, toolchain

# No symbol of one model may bind to another model's in the same process.
COMPILER = """
    -std=c++17 -O1 -fPIC -fvisibility=hidden -fno-gnu-unique -DVL_TIME_CONTEXT
""".split()
TRACED = ("-DVM_TRACE=1", "-DVM_TRACE_VCD=1")
SOURCES = ("verilated.cpp", "verilated_threads.cpp", "verilated_dpi.cpp")


def includes(tools: toolchain.Toolchain) -> list[str]:
    """Return the options that find the runtime's headers."""
    return [f"-I{tools.include}", f"-I{tools.include / 'vltstd'}"]


def objects(tools: toolchain.Toolchain, *, traced: bool = False) -> list[str]:
    """Return the compiled runtime: dearer than most models, so it is kept.

    Parameters
    ----------
    tools : Toolchain
        Compiler and runtime.
    traced : bool
        Whether models write waves.

    Raises
    ------
    hw.sim.toolchain.ToolError
        If the compiler fails.
    """
    sources = [*SOURCES, *(["verilated_vcd_c.cpp"] if traced else [])]
    options = [*COMPILER, *(TRACED if traced else ())]
    contents = [tools.versions, *options, *sources]
    built = cache.obtain("runtime", contents, partial(_build, tools, options, sources))
    return [str(path) for path in sorted(built.glob("*.o"))]


def _build(
    tools: toolchain.Toolchain, options: list[str], sources: Sequence[str], work: Path
) -> None:
    def compiled(source: str) -> None:
        path = str(tools.include / source)
        toolchain.run([tools.compiler, *options, *includes(tools), "-c", path], cwd=work)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compiled, sources))
