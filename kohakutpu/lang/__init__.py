"""The language of kernels: declarations, tiles, elementwise and row functions.

`grid`, `stage`, `units`, `sweep` and `loop` are the framework's: `kohakuaccel.lang`.
"""

from typing import Any

from kohakuaccel.source import mark_internal, mark_library

mark_internal("kohakutpu.lang")
mark_library("kohakutpu", "compiler")

from kohakutpu.lang.declarations import In, Out, table, temp  # noqa: E402
from kohakutpu.lang.functions import (  # noqa: E402 (frames are hidden from here on)
    absolute,
    clamp,
    erf,
    exp,
    exp2,
    gelu,
    log2,
    maximum,
    minimum,
    recip,
    relu,
    row_max,
    row_mean,
    row_min,
    row_sum,
    rsqrt,
    sigmoid,
    silu,
    sqrt,
    tanh,
    where,
)
from kohakutpu.lang.functions import absolute as abs  # noqa: E402
from kohakutpu.lang.hazards import NumericHazard  # noqa: E402
from kohakutpu.lang.kernel import Kernel, kernel  # noqa: E402
from kohakutpu.lang.operands import region  # noqa: E402
from kohakutpu.lang.printing import show as print  # noqa: E402
from kohakutpu.lang.states import state  # noqa: E402
from kohakutpu.lang.tensors import Tensor  # noqa: E402
from kohakutpu.lang.tiles import tile  # noqa: E402

_FRAMEWORK = ("ceildiv", "dims", "grid", "loop", "stage", "sweep", "units")


def __getattr__(name: str) -> Any:
    if name in _FRAMEWORK:
        raise AttributeError(
            f"kohakutpu.lang has no `{name}`: it is the framework's, "
            f"write `from kohakuaccel.lang import {name}`"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "In",
    "Kernel",
    "NumericHazard",
    "Out",
    "Tensor",
    "abs",
    "absolute",
    "clamp",
    "erf",
    "exp",
    "exp2",
    "gelu",
    "kernel",
    "log2",
    "maximum",
    "minimum",
    "print",
    "recip",
    "region",
    "relu",
    "row_max",
    "row_mean",
    "row_min",
    "row_sum",
    "rsqrt",
    "sigmoid",
    "silu",
    "sqrt",
    "state",
    "table",
    "tanh",
    "temp",
    "tile",
    "where",
]
