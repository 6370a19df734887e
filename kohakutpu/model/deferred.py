"""EXEC results that are worked out later, many at a time.

A loop computes the same expression for one block of rows after the other, and each step of it
costs numpy more to start than to do. So the fast machine only notes what a value is computed of
(`Deferred`), and when values are due, those of one form are computed together: their operands are
stacked along a new first axis. Nothing an EXEC does depends on another row, so no bit changes.

Operands never change (see `held`), so it makes no difference when a value is worked out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from kohakutpu.model import arithmetic
from kohakutpu.model.tables import Tabulated
from kohakutpu.numerics import fp16, fp32

COMBINE = "combine"  # FP32 of up to three operands; parameters f, unary, clean
REDUCE = "reduce"  # FP32 [1, rows] of FP32 [rows, cols]; parameter: sum, max or min
COLUMN = "column"  # [rows, 1] of [1, rows]
NARROW = "narrow"  # FP16 codes of FP32
WIDEN = "widen"  # FP32 of FP16 codes
CANONICAL = "canonical"  # FP32 with one NaN
TABLE = "table"  # FP32 of a `Tabulated`; parameter: its table
LEAF = "leaf"  # an array

# An expression of more steps is worked out before it grows further: a value that depends on the
# one of the last iteration would otherwise reach back to the start of the program.
STEPS = 24
USES = 8  # a value with more users is worked out once, not once for each
ELEMENTS = 32768  # worked out together: a few intermediate arrays stay in cache

Shape = tuple[int, int]
Step = tuple[str, Any, tuple[int | None, ...], Shape]


@final
class Deferred:
    """An array that is worked out later.

    Attributes
    ----------
    shape : tuple of int
        Its rows and columns.
    value : ndarray or None
        The array, once it is worked out.
    """

    __slots__ = ("_kind", "_operands", "_parameter", "_steps", "_uses", "shape", "value")

    def __init__(self, kind: str, parameter: Any, operands: tuple[Any, ...], shape: Shape) -> None:
        self.shape = shape
        self.value: NDArray[Any] | None = None
        self._kind = kind
        self._parameter = parameter
        self._operands = operands
        self._uses = 0
        self._steps = 1
        for operand in operands:
            if type(operand) is Deferred and operand.value is None:
                operand._uses += 1
                if operand._uses > USES or operand._steps > STEPS:
                    operand.force()
                else:
                    self._steps += operand._steps

    def force(self) -> NDArray[Any]:
        """Work it out now, with what it depends on, and return it."""
        if self.value is None:
            expression = Expression(self)
            results = compute(expression.steps, [[leaf] for leaf in expression.leaves], 1)
            for node, slot in expression.nodes:
                node.value = results[slot][0]
                node._operands = ()
            assert self.value is not None
        return self.value

    def step(self, visit: Callable[[Any], int | None]) -> Step:
        """Return this value as a step, after its operands were visited."""
        return self._kind, self._parameter, tuple([visit(o) for o in self._operands]), self.shape


class Expression:
    """How to work a value out: steps, and the arrays they start from.

    Two values with equal `steps` can be computed together. A step refers to operands by the
    number of their step; an FP32 immediate is the complement of its bits.
    """

    def __init__(self, root: Deferred) -> None:
        self.leaves: list[NDArray[Any]] = []
        self.nodes: list[tuple[Deferred, int]] = []
        self._steps: list[Step] = []
        self._numbers: dict[int, int] = {}
        self.visit(root)
        self.steps = tuple(self._steps)

    def visit(self, value: Any) -> int | None:
        """Append what leads to `value`, unless it is there, and return its reference."""
        number = self._numbers.get(id(value))
        if number is not None or value is None:
            return number
        if isinstance(value, np.generic):
            return ~int(value.view(np.uint32))
        if type(value) is Deferred and value.value is None:
            step = value.step(self.visit)
            self.nodes.append((value, len(self._steps)))
        elif type(value) is Tabulated:
            step = (TABLE, value.table, (), value.codes.shape)
            self.leaves.append(value.codes)
        else:
            leaf: Any = value.value if type(value) is Deferred else value
            step = (LEAF, leaf.dtype.char, (), leaf.shape)
            self.leaves.append(leaf)
        number = self._numbers[id(value)] = len(self._steps)
        self._steps.append(step)
        return number


def compute(
    steps: Sequence[Step], leaves: Sequence[Sequence[NDArray[Any]]], count: int
) -> list[NDArray[Any]]:
    """Work `count` values of one form out together.

    Parameters
    ----------
    steps : sequence
        The form.
    leaves : sequence of sequence of ndarray
        For each leaf of the form, its array in each of the values.
    count : int
        How many values.

    Returns
    -------
    list of ndarray
        The result of each step, ``[count, rows, cols]``.
    """
    results: list[NDArray[Any]] = []
    arrays = iter(leaves)
    for kind, parameter, references, (rows, cols) in steps:
        if kind == COMBINE:
            f, unary, clean = parameter
            operands = [_operand(results, reference) for reference in references]
            result = arithmetic.combine(f, unary, operands, clean=clean)
        elif kind == LEAF:
            result = _stacked(next(arrays))
        elif kind == TABLE:
            result = parameter.look_up(_stacked(next(arrays)))
        else:
            (reference,) = references
            assert reference is not None
            operand = results[reference]
            if kind == REDUCE:
                matrix = operand.reshape(count * operand.shape[1], operand.shape[2])
                result = arithmetic.reduced(parameter, matrix).reshape(count, 1, cols)
            elif kind == COLUMN:
                result = operand.reshape(count, rows, 1)
            elif kind == NARROW:
                result = fp16.from_fp32(operand)
            elif kind == WIDEN:
                result = fp16.to_fp32(operand)
            else:
                assert kind == CANONICAL, kind
                result = fp32.canonical(operand)
        shape = (count, rows, cols)
        results.append(result if result.shape == shape else np.broadcast_to(result, shape))
    return results


def _operand(results: list[NDArray[Any]], reference: int | None) -> Any:
    if reference is None:
        return None
    return results[reference] if reference >= 0 else np.uint32(~reference).view(np.float32)


def _stacked(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    first = arrays[0]
    if len(arrays) == 1 or all(array is first for array in arrays):
        return first[None]
    return np.stack(arrays)
