"""Constants: the machine's own arithmetic on FP32 patterns, done at compile time."""

from __future__ import annotations

from collections.abc import Callable

from kohakutpu.numerics.scalar import fp32, seeds


def _select(a: int, b: int, condition: int) -> int:
    return fp32.select(condition, a, b)


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "add": fp32.add,
    "mul": fp32.mul,
    "neg": fp32.neg,
    "abs": fp32.absolute,
    "exp2": seeds.exp2,
    "log2": seeds.log2,
    "recip": seeds.recip,
    "rsqrt": seeds.rsqrt,
    "max": fp32.maximum,
    "min": fp32.minimum,
    "lt": fp32.lt,
    "le": fp32.le,
    "eq": fp32.eq,
    "select": _select,
}


def fold(op: str, args: tuple[int, ...]) -> int:
    """Return the pattern of ``op`` of constants."""
    return _FUNCTIONS[op](*args)
