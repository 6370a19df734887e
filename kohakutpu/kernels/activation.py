# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Activations, any rank. The same expressions fuse onto a contraction in `linear`."""

from kohakuaccel.lang import grid
from kohakutpu import lang as L
from kohakutpu.lang import kernel


@kernel
def silu(x=L.In(...), y=L.Out(...), *, n=None):
    """``y = x * sigmoid(x)`` with ``sigmoid(x) = 1 / (1 + 2**(-x log2 e))``.

    At -Inf it is ``-inf * 0``, which is NaN; so it is in numpy.
    """
    for e in grid(y.parts(n)):
        y[e] <<= L.silu(x[e])


@kernel
def gelu(x=L.In(...), y=L.Out(...), *, n=None):
    """``y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3)))``, the tanh form.

    ``(1 + tanh(u)) / 2`` is ``1 / (1 + exp(-2 u))``, so it costs one exponential and one
    reciprocal. The tanh form differs from the one with erf by less than 5e-4.
    """
    for e in grid(y.parts(n)):
        y[e] <<= L.gelu(x[e])


@kernel
def relu(x=L.In(...), y=L.Out(...), *, n=None):
    """``y = max(x, 0)``; NaN stays NaN."""
    for e in grid(y.parts(n)):
        y[e] <<= L.relu(x[e])
