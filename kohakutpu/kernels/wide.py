# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""The functions of `rows` for rows of any width, piece by piece.

A unit goes over the pieces of its rows and carries what it has so far; nothing but the result is
written. A sum adds the sums of pieces of `PIECE` elements in order, so bits depend on nothing but
the row; they differ from those of `rows`, which adds a whole row in one order.
"""

from kohakuaccel.lang import dims, stage, sweep, units
from kohakutpu import lang as L
from kohakutpu.kernels.rows import LOG2_E
from kohakutpu.lang import kernel

M, W = dims("M, W")
PIECE = 256
CHUNKS = PIECE // 32


@kernel
def row_sum(x=L.In(..., M, W), y=L.Out(..., M), *, n=4):
    """``y[m] = sum over w of x[m, w]``."""
    with units(x.rows(n)) as r:
        total = L.state(0.0)
        for c in sweep(x.chunks32(CHUNKS)):
            total <<= total + L.row_sum(x[r, c])
        y[r] <<= total


@kernel
def row_max(x=L.In(..., M, W), y=L.Out(..., M), *, n=4):
    """``y[m] = max over w of x[m, w]``; NaN wins."""
    with units(x.rows(n)) as r:
        top = L.state(float("-inf"))
        for c in sweep(x.chunks32(CHUNKS)):
            top <<= L.maximum(top, L.row_max(x[r, c]))
        y[r] <<= top


@kernel
def row_min(x=L.In(..., M, W), y=L.Out(..., M), *, n=4):
    """``y[m] = min over w of x[m, w]``; NaN wins."""
    with units(x.rows(n)) as r:
        least = L.state(float("inf"))
        for c in sweep(x.chunks32(CHUNKS)):
            least <<= L.minimum(least, L.row_min(x[r, c]))
        y[r] <<= least


@kernel
def row_mean(x=L.In(..., M, W), y=L.Out(..., M), *, n=4):
    """``y[m] = sum over w of x[m, w]``, times ``1 / W``."""
    with units(x.rows(n)) as r:
        total = L.state(0.0)
        for c in sweep(x.chunks32(CHUNKS)):
            total <<= total + L.row_sum(x[r, c])
        y[r] <<= total * (1 / W)


@kernel
def softmax(x=L.In(..., M, W), y=L.Out(..., M, W), *, n=4):
    """``y = exp(x - m) / sum(exp(x - m))`` of each row, as in `rows`; ``x`` is read three times."""
    with units(x.rows(n)) as r:
        top, total = L.state(float("-inf")), L.state(0.0)
        for c in sweep(x.chunks32(CHUNKS)):
            top <<= L.maximum(top, L.row_max(x[r, c]))
        for c in sweep(x.chunks32(CHUNKS)):
            total <<= total + L.row_sum(L.exp2(x[r, c] * LOG2_E - top * LOG2_E))
        for c in sweep(x.chunks32(CHUNKS)):
            y[r, c] <<= L.exp2(x[r, c] * LOG2_E - top * LOG2_E) * L.recip(total)


@kernel
def rmsnorm(x=L.In(..., M, W), w=L.In(W), y=L.Out(..., M, W), *, n=4, eps=1e-5):
    """``y = x / sqrt(mean(x**2) + eps) * w`` of each row; ``x`` is read twice."""
    with units(x.rows(n)) as r:
        total = L.state(0.0)
        for c in sweep(x.chunks32(CHUNKS)):
            total <<= total + L.row_sum((x[r, c] * (1 / W)) * x[r, c])
        for c in sweep(x.chunks32(CHUNKS)):
            y[r, c] <<= x[r, c] * L.rsqrt(total + eps) * w[c]


@kernel
def layernorm(x=L.In(..., M, W), w=L.In(W), b=L.In(W), y=L.Out(..., M, W), *, n=4, eps=1e-5):
    """``y = (x - mean(x)) / sqrt(var(x) + eps) * w + b`` of each row; ``x`` is read three times."""
    with units(x.rows(n)) as r:
        total, spread = L.state(0.0), L.state(0.0)
        for c in sweep(x.chunks32(CHUNKS)):
            total <<= total + L.row_sum(x[r, c])
        for c in sweep(x.chunks32(CHUNKS)):
            centred = x[r, c] - total * (1 / W)
            spread <<= spread + L.row_sum((centred * (1 / W)) * centred)
        for c in sweep(x.chunks32(CHUNKS)):
            centred = x[r, c] - total * (1 / W)
            y[r, c] <<= centred * L.rsqrt(spread + eps) * w[c] + b[c]


@kernel
def group_norm(
    x=L.In(..., M, W),
    w=L.In(..., M),
    b=L.In(..., M),
    y=L.Out(..., M, W),
    *,
    n=4,
    eps=1e-5,
):
    """``y = (x - mean) / sqrt(var + eps) * w + b`` over a group of M channels, as in `group`."""
    share = 1 / (M * W)
    sums, mean = L.temp(M, dtype="fp32"), L.temp(M, dtype="fp32")
    squares, scale = L.temp(M, dtype="fp32"), L.temp(M, dtype="fp32")
    with units(x.rows(n)) as r:
        total = L.state(0.0)
        for c in sweep(x.chunks32(CHUNKS)):
            total <<= total + L.row_sum(x[r, c])
        sums[r] <<= total
    with stage(sums.rows(1)) as g:
        mean[g] <<= L.row_sum(sums[g]) * share
    with units(x.rows(n)) as r:
        spread = L.state(0.0)
        for c in sweep(x.chunks32(CHUNKS)):
            centred = x[r, c] - mean[r]
            spread <<= spread + L.row_sum(centred * share * centred)
        squares[r] <<= spread
    with stage(squares.rows(1)) as g:
        scale[g] <<= L.rsqrt(L.row_sum(squares[g]) + eps)
    with units(x.rows(n)) as r:
        centre, factor = L.state(mean[r]), L.state(scale[r])  # read once, for all pieces
        for c in sweep(x.chunks32(CHUNKS)):
            y[r, c] <<= (x[r, c] - centre) * factor * w[r] + b[r]
