"""Compute a traced value graph with numpy in double precision: what a kernel means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Grid, Store, Trace, Value
from kohakuaccel.ir.scalar import evaluate
from kohakutpu.lang.ir import walk

Array = NDArray[np.float64]

OPERATIONS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "exp2": np.exp2,
    "log2": np.log2,
    "recip": lambda a: 1.0 / a,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "max": np.maximum,
    "min": np.minimum,
    "lt": lambda a, b: np.where(a < b, 1.0, 0.0),
    "le": lambda a, b: np.where(a <= b, 1.0, 0.0),
    "eq": lambda a, b: np.where(a == b, 1.0, 0.0),
    "select": lambda a, b, c: np.where(c != 0, a, b),
    "row_sum": lambda a: a.sum(axis=-1, keepdims=True),
    "row_max": lambda a: a.max(axis=-1, keepdims=True),
    "row_min": lambda a: a.min(axis=-1, keepdims=True),
}


def only_store(trace: Trace) -> Store:
    """Return the single store of a kernel with a single grid."""
    (grid,) = trace.body
    assert isinstance(grid, Grid)
    stores = [statement for statement in grid.body if isinstance(statement, Store)]
    assert len(stores) == 1
    return stores[0]


def compute(
    value: Value, buffers: Mapping[str, Array], env: Mapping[Symbol, int] | None = None
) -> Array:
    """Return what ``value`` is when every load yields the whole buffer of that name."""
    done: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for node in walk(value):
            if node.view is not None:
                done[id(node)] = buffers[node.view.buffer.name]
            elif node.op == "const":
                done[id(node)] = np.float64(evaluate(node.number, env or {}))
            else:
                done[id(node)] = OPERATIONS[node.op](*(done[id(arg)] for arg in node.args))
    return np.asarray(done[id(value)], dtype=np.float64)
