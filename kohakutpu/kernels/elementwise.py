# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""One element in, one element out, whatever the rank.

``In(...)`` alone takes a tensor of any shape as one run of elements in storage order; `parts` cuts
it into blocks of ``n`` for the vector cores. Each operation rounds once to FP32, the store once to
FP16.
"""

from kohakuaccel.lang import grid
from kohakutpu import lang as L
from kohakutpu.lang import kernel


@kernel
def add(a=L.In(...), b=L.In(...), c=L.Out(...), *, n=None):
    """``c = a + b`` for equal shapes."""
    for e in grid(c.parts(n)):
        c[e] <<= a[e] + b[e]


@kernel
def sub(a=L.In(...), b=L.In(...), c=L.Out(...), *, n=None):
    """``c = a - b`` for equal shapes."""
    for e in grid(c.parts(n)):
        c[e] <<= a[e] - b[e]


@kernel
def mul(a=L.In(...), b=L.In(...), c=L.Out(...), *, n=None):
    """``c = a * b`` for equal shapes."""
    for e in grid(c.parts(n)):
        c[e] <<= a[e] * b[e]


@kernel
def div(a=L.In(...), b=L.In(...), c=L.Out(...), *, n=None):
    """``c = a * recip(b)`` for equal shapes: the quotient to about 2**-20, then rounded to FP16."""
    for e in grid(c.parts(n)):
        c[e] <<= a[e] / b[e]


@kernel
def maximum(a=L.In(...), b=L.In(...), c=L.Out(...), *, n=None):
    """``c = max(a, b)`` for equal shapes; NaN wins, and +0 is larger than -0."""
    for e in grid(c.parts(n)):
        c[e] <<= L.maximum(a[e], b[e])


@kernel
def minimum(a=L.In(...), b=L.In(...), c=L.Out(...), *, n=None):
    """``c = min(a, b)`` for equal shapes; NaN wins, and -0 is smaller than +0."""
    for e in grid(c.parts(n)):
        c[e] <<= L.minimum(a[e], b[e])


@kernel
def where(condition=L.In(...), a=L.In(...), b=L.In(...), c=L.Out(...), *, n=None):
    """``c = a`` where `condition` is not zero (NaN is not), else ``b``, for equal shapes."""
    for e in grid(c.parts(n)):
        c[e] <<= L.where(condition[e], a[e], b[e])


@kernel
def neg(x=L.In(...), y=L.Out(...), *, n=None):
    """``y = -x``."""
    for e in grid(y.parts(n)):
        y[e] <<= -x[e]


@kernel
def abs(x=L.In(...), y=L.Out(...), *, n=None):
    """``y = |x|``."""
    for e in grid(y.parts(n)):
        y[e] <<= L.abs(x[e])


@kernel
def exp2(x=L.In(...), y=L.Out(...), *, n=None):
    """``y = 2**x``."""
    for e in grid(y.parts(n)):
        y[e] <<= L.exp2(x[e])


@kernel
def log2(x=L.In(...), y=L.Out(...), *, n=None):
    """``y = log2(x)``: -Inf at 0, NaN below."""
    for e in grid(y.parts(n)):
        y[e] <<= L.log2(x[e])


@kernel
def recip(x=L.In(...), y=L.Out(...), *, n=None):
    """``y = 1 / x``: the Inf of its sign at 0."""
    for e in grid(y.parts(n)):
        y[e] <<= L.recip(x[e])


@kernel
def rsqrt(x=L.In(...), y=L.Out(...), *, n=None):
    """``y = 1 / sqrt(x)``: the Inf of its sign at 0, NaN below."""
    for e in grid(y.parts(n)):
        y[e] <<= L.rsqrt(x[e])
