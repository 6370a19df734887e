"""Random elementwise expressions, as hypothesis strategies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from compiler.tests.vector.harness import const, op
from kohakuaccel.ir.nodes import Value

UNARY = ("neg", "abs", "exp2", "log2", "recip", "rsqrt")
BINARY = ("add", "add", "sub", "mul", "mul", "max", "min", "lt", "le", "eq")
REDUCTIONS = ("row_sum", "row_max", "row_min")
CONSTANTS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.14159, -2.75, 1e-30, 1e30, float("inf"), 1e-42)

SPECIAL = np.array(
    [0, 0x8000, 1, 0x8001, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x0400, 0x3555],
    np.uint16,
).view(np.float16)


@st.composite
def expressions(draw: Any, leaves: Sequence[Value], rows: bool, size: int = 14) -> list[Value]:
    """Values over ``leaves``: whatever can be made of them, the last ones the largest.

    With ``rows``, row functions take part.
    """
    pool = list(leaves)
    count = draw(st.integers(1, size))
    for _ in range(count):
        pick = st.sampled_from(pool[-6:] + list(leaves))
        kinds = ["unary", "binary", "binary", "select", "constant"] + ["row"] * rows
        match draw(st.sampled_from(kinds)):
            case "unary":
                made = op(draw(st.sampled_from(UNARY)), draw(pick))
            case "binary":
                made = op(draw(st.sampled_from(BINARY)), draw(pick), draw(pick))
            case "select":
                made = op("select", draw(pick), draw(pick), draw(pick))
            case "constant":
                number = const(draw(st.sampled_from(CONSTANTS)))
                pair = [draw(pick), number]
                if draw(st.booleans()):
                    pair.reverse()
                made = op(draw(st.sampled_from(BINARY)), *pair)
            case _:
                full = [value for value in pool if value.extent == "full"]
                made = op(draw(st.sampled_from(REDUCTIONS)), draw(st.sampled_from(full)))
        pool.append(made)
    return pool[len(leaves) :]


def numbers(draw: Any, *shape: int, dtype: Any = np.float16) -> NDArray[Any]:
    """Return an array of ordinary and, with luck, of special numbers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    array = rng.standard_normal(shape).astype(np.float16)
    if draw(st.booleans()):
        special = rng.choice(SPECIAL, size=shape)
        array = np.where(rng.random(shape) < 0.2, special, array)
    if dtype == np.float32:
        wide = array.astype(np.float32)
        return (wide * np.float32(1e-38)) if draw(st.booleans()) else wide
    return array
