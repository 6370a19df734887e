"""Which operations share a kernel: those whose results have the same bits as from separate ones.

A separate kernel rounds to FP16 what a fused one keeps in FP32. So at most one operation of a chain
may round: what comes before it must be exact (a maximum of FP16 numbers is one of them), what
comes after it must commute with rounding (the maximum of rounded numbers is the rounded maximum).
The tile of a contraction is FP16 when anything else sees it, so it is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kohakutpu.api import products
from kohakutpu.api.array import Array
from kohakutpu.kernels.fused import Expression

if TYPE_CHECKING:
    from kohakutpu.api.deferred import Operation

OPERANDS = 4  # of a kernel, the factors of a contraction not counted
SELECTING = frozenset(("neg", "abs", "relu", "maximum", "minimum", "where"))
COMPARING = frozenset(("lt", "le", "eq", "ne"))


@dataclass(frozen=True)
class Group:
    """Operations that one kernel computes.

    Attributes
    ----------
    expression : int or tuple
        What is computed; 0 is the product if there is one, the others follow.
    operands : list
        Tensors, numbers, and operations to be computed before; the factors of the product first.
    product : Operation or None
        The contraction.
    size : int
        How many operations it is.
    """

    expression: Expression
    operands: list[Any]
    product: Operation | None
    size: int


@dataclass(frozen=True)
class _Tree:
    """An operation with what is computed together with it.

    ``exact``: the FP32 value is the FP16 number that a kernel of its own would store.
    """

    operation: Operation
    arguments: tuple[Any, ...] = ()  # trees, and what is a leaf here
    exact: bool = True

    @property
    def members(self) -> list[Operation]:
        inner = [m for a in self.arguments if isinstance(a, _Tree) for m in a.members]
        return [self.operation, *inner]

    @property
    def leaves(self) -> list[Any]:
        """What must be there before, each once."""
        found: dict[int, Any] = {}
        for argument in self.arguments:
            for leaf in argument.leaves if isinstance(argument, _Tree) else (argument,):
                found.setdefault(id(leaf), leaf)
        return list(found.values())

    @property
    def product(self) -> Operation | None:
        return next((m for m in self.members if m.name == "matmul"), None)


def group_of(operation: Operation) -> Group:
    """Return the largest group, as far as one looks, of which `operation` is the last."""
    if operation.name == "matmul":
        return alone(operation)
    tree = _tree(operation, operation.shape, contraction=True)
    product = tree.product
    if product is not None:
        x, w = (factor.shape for factor in product.operands)
        if products.forms_of(tree.leaves, x, w, operation.shape) is None:
            tree = _tree(operation, operation.shape, contraction=False)
    return _group(tree)


def alone(operation: Operation) -> Group:
    """Return the group that is one operation."""
    if operation.name == "matmul":
        return Group(0, list(operation.operands), operation, 1)
    return _group(_Tree(operation, operation.operands))


def _tree(operation: Operation, shape: tuple[int, ...], contraction: bool, depth: int = 8) -> _Tree:
    """Return what can be computed with `operation`, all of it of one shape."""
    if operation.name == "matmul":
        return _Tree(operation)
    name = operation.name
    arguments: list[Any] = []
    exact = [_is_exact(operand) for operand in operation.operands]
    budget = OPERANDS - len(operation.operands)
    for place, operand in enumerate(operation.operands):
        inner = None
        if depth and _may_join(operand, shape, contraction):
            inner = _tree(operand, shape, contraction, depth - 1)
            after = name in SELECTING and (name != "where" or place > 0)
            if not (inner.exact or after) or len(inner.leaves) - 1 > budget:
                inner = None
        if inner is None:
            arguments.append(operand)
            continue
        budget -= len(inner.leaves) - 1
        contraction = contraction and inner.product is None
        exact[place] = inner.exact
        arguments.append(inner)
    values = exact[1:] if name == "where" else exact
    return _Tree(
        operation, tuple(arguments), name in COMPARING or (name in SELECTING and all(values))
    )


def _may_join(operand: Any, shape: tuple[int, ...], contraction: bool) -> bool:
    """Return whether nobody but its one user needs an operand in memory."""
    if isinstance(operand, (Array, np.floating)) or operand.done:
        return False
    if operand.users != 1 or operand.wanted or operand.shape != shape:
        return False
    return operand.name != "matmul" or contraction


def _is_exact(operand: Any) -> bool:
    """Return whether an operand's value is an FP16 number."""
    if isinstance(operand, np.floating):
        number = float(cast("np.float32", operand))
        with np.errstate(over="ignore"):
            return float(np.float16(number)) == number or math.isnan(number)
    return operand.format == "fp16"


def _group(tree: _Tree) -> Group:
    product = tree.product
    if len(tree.members) == 1:  # with each operand apart, as the kernels of the library want them
        name, operands = tree.operation.name, list(tree.arguments)
        return Group((name, *range(len(operands))), operands, None, 1)
    operands = tree.leaves
    first = 0 if product is None else 1
    places = {id(leaf): first + place for place, leaf in enumerate(operands)}
    expression = _express(tree, places)
    if product is not None:
        operands = [*product.operands, *operands]
    return Group(expression, operands, product, len(tree.members))


def _express(argument: Any, places: Mapping[int, int]) -> Expression:
    if not isinstance(argument, _Tree):
        return places[id(argument)]
    operation = argument.operation
    if operation.name == "matmul":
        return 0
    return (operation.name, *(_express(inner, places) for inner in argument.arguments))
