"""The tensor level: say what to compute, and the machine does it.

Everything here is a kernel of `kohakutpu.kernels`; nothing is computed on the host. `@` contracts
the last axis of both operands, and `Tensor.numpy` is the line that brings data back.
"""

from __future__ import annotations

from kohakuaccel.source import mark_internal
from kohakutpu.api import elementwise
from kohakutpu.api.attention import attention
from kohakutpu.api.contraction import matmul
from kohakutpu.api.convolution import conv2d
from kohakutpu.api.creation import full, tensor, zeros
from kohakutpu.api.deferred import eager
from kohakutpu.api.dispatch import Backend
from kohakutpu.api.elementwise import Number
from kohakutpu.api.groups import group_norm
from kohakutpu.api.mlp import mlp
from kohakutpu.api.profile import Profile, profile
from kohakutpu.api.rotary import rope, rope_tables
from kohakutpu.api.session import Session, current, device
from kohakutpu.api.shapes import concat
from kohakutpu.api.stats import Stats
from kohakutpu.api.tensor import Tensor
from kohakutpu.api.tuning import Tuning, tune
from kohakutpu.lang.kernel import set_backend

mark_internal(__name__)
set_backend(Backend())

__all__ = [
    "Profile",
    "Session",
    "Stats",
    "Tensor",
    "Tuning",
    "abs",
    "attention",
    "clamp",
    "concat",
    "conv2d",
    "device",
    "eager",
    "empty_cache",
    "exp2",
    "full",
    "group_norm",
    "log2",
    "matmul",
    "maximum",
    "minimum",
    "mlp",
    "neg",
    "profile",
    "recip",
    "reset_stats",
    "rope",
    "rope_tables",
    "rsqrt",
    "stats",
    "sync",
    "tensor",
    "tune",
    "where",
    "zeros",
]


def neg(x: Tensor) -> Tensor:
    """Return ``-x``."""
    return elementwise.unary("neg", x)


def abs(x: Tensor) -> Tensor:
    """Return the magnitude of each element."""
    return elementwise.unary("abs", x)


def exp2(x: Tensor) -> Tensor:
    """Return 2 to the power of each element."""
    return elementwise.unary("exp2", x)


def log2(x: Tensor) -> Tensor:
    """Return the binary logarithm of each element: -Inf at 0, NaN below."""
    return elementwise.unary("log2", x)


def recip(x: Tensor) -> Tensor:
    """Return ``1 / x`` of each element."""
    return elementwise.unary("recip", x)


def rsqrt(x: Tensor) -> Tensor:
    """Return ``1 / sqrt(x)`` of each element: NaN below 0."""
    return elementwise.unary("rsqrt", x)


def maximum(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    """Return the larger of each pair of elements, broadcast as in numpy; NaN wins."""
    return elementwise.apply("maximum", a, b)


def minimum(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    """Return the smaller of each pair of elements, broadcast as in numpy; NaN wins."""
    return elementwise.apply("minimum", a, b)


def clamp(
    x: Tensor, low: Tensor | Number | None = None, high: Tensor | Number | None = None
) -> Tensor:
    """Return ``minimum(maximum(x, low), high)``; a bound that is None is none."""
    return x.clamp(low, high)


def where(condition: Tensor, a: Tensor | Number, b: Tensor | Number) -> Tensor:
    """Return `a` where `condition` is not zero, else `b`, all broadcast as in numpy."""
    return elementwise.apply("where", condition, a, b)


def sync() -> None:
    """Compute what still waits, and return when everything on the selected device has run."""
    current().sync()


def empty_cache() -> None:
    """Give back device memory that only speeds things up: programs and their constants."""
    current().empty_cache()


def stats() -> Stats:
    """Return the counters of the selected device: attributes, or a text when printed.

    What still waits is computed first, so that it counts.
    """
    return current().stats()


def reset_stats() -> None:
    """Start the counters of the selected device again from zero; what waits does not count."""
    current().reset_stats()
