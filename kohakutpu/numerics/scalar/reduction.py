"""Row reductions on FP32 bit patterns, in the order that `kohakutpu.numerics.reduction` defines."""

from collections.abc import Callable, Sequence

from kohakutpu.numerics.scalar import fp32

GROUP = 16
ACCUMULATORS = 8

Combine = Callable[[int, int], int]


def _tree(values: Sequence[int], combine: Combine) -> int:
    """Combine adjacent pairs, then pairs of pairs; the length is a power of two."""
    while len(values) > 1:
        values = [combine(values[i], values[i + 1]) for i in range(0, len(values), 2)]
    return values[0]


def _reduce(row: Sequence[int], combine: Combine, identity: int) -> int:
    missing = -len(row) % GROUP
    row = [*row, *[identity] * missing]
    groups = [_tree(row[i : i + GROUP], combine) for i in range(0, len(row), GROUP)]
    partials: list[int] = groups[:ACCUMULATORS]
    for q in range(ACCUMULATORS, len(groups)):
        partials[q % ACCUMULATORS] = combine(partials[q % ACCUMULATORS], groups[q])
    return _tree([*partials, *[identity] * (ACCUMULATORS - len(partials))], combine)


def row_sum(row: Sequence[int]) -> int:
    """Return the sum of a row; nothing counts as -0."""
    return _reduce(row, fp32.add, 0x80000000)


def row_max(row: Sequence[int]) -> int:
    """Return the largest element of a row; nothing counts as -Inf."""
    return _reduce(row, fp32.maximum, 0xFF800000)


def row_min(row: Sequence[int]) -> int:
    """Return the smallest element of a row; nothing counts as +Inf."""
    return _reduce(row, fp32.minimum, 0x7F800000)
