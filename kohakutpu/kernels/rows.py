# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Functions of whole rows: reductions, softmax, normalisations.

``x`` is ``(..., M, W)``; `rows` cuts the M rows into blocks of ``n``. A reduction adds the elements
of a row in FP32 in one defined order, so bits depend on nothing but the row.
"""

from kohakuaccel.lang import dims, grid
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, W = dims("M, W")
LOG2_E = 1.4426950408889634


@kernel
def row_sum(x=L.In(..., M, W), y=L.Out(..., M), *, n=None):
    """``y[m] = sum over w of x[m, w]``."""
    for r in grid(x.rows(n)):
        y[r] <<= L.row_sum(x[r])


@kernel
def row_max(x=L.In(..., M, W), y=L.Out(..., M), *, n=None):
    """``y[m] = max over w of x[m, w]``; NaN wins."""
    for r in grid(x.rows(n)):
        y[r] <<= L.row_max(x[r])


@kernel
def row_min(x=L.In(..., M, W), y=L.Out(..., M), *, n=None):
    """``y[m] = min over w of x[m, w]``; NaN wins."""
    for r in grid(x.rows(n)):
        y[r] <<= L.row_min(x[r])


@kernel
def row_mean(x=L.In(..., M, W), y=L.Out(..., M), *, n=None):
    """``y[m] = sum over w of x[m, w]``, times ``1 / W``.

    The sum is FP32 and cannot overflow, so it is divided once, after the addition.
    """
    for r in grid(x.rows(n)):
        y[r] <<= L.row_sum(x[r]) * (1 / W)


@kernel
def softmax(x=L.In(..., M, W), y=L.Out(..., M, W), *, n=None):
    """``y = exp(x - m) / sum(exp(x - m))`` of each row, ``m`` being its maximum.

    ``exp(x - m)`` is computed as ``2**(x log2(e) - m log2(e))``, one pass. Its error is below the
    rounding of FP16 for ``|x| <= 2048``, and below 0.4 % beyond. The maximum itself always yields
    exactly 1, so equal elements share a row evenly, even at -65504. As ``exp(x - m)`` does in
    numpy, a row that holds NaN or +Inf, or nothing but -Inf, becomes NaN; -Inf beside a number
    becomes 0.
    """
    for r in grid(x.rows(n)):
        scaled = x[r] * LOG2_E
        # The least of -x log2(e) is the greatest of x as it is subtracted: no step between.
        power = L.exp2(scaled + L.row_min(x[r] * -LOG2_E))
        y[r] <<= power * L.recip(L.row_sum(power))


@kernel
def rmsnorm(x=L.In(..., M, W), w=L.In(W), y=L.Out(..., M, W), *, n=None, eps=1e-5):
    """``y = x / sqrt(mean(x**2) + eps) * w`` of each row; ``w`` is one element a column.

    Each square is divided by W before it is added: ``(x / W) * x`` stays small where ``x**2``
    would not.
    """
    for r in grid(x.rows(n)):
        mean_square = L.row_sum((x[r] * (1 / W)) * x[r])
        y[r] <<= x[r] * L.rsqrt(mean_square + eps) * w


@kernel
def layernorm(x=L.In(..., M, W), w=L.In(W), b=L.In(W), y=L.Out(..., M, W), *, n=None, eps=1e-5):
    """``y = (x - mean(x)) / sqrt(var(x) + eps) * w + b`` of each row.

    The variance is the mean of the squared distances from the mean, in a second pass: a
    difference of two large means would cancel.
    """
    for r in grid(x.rows(n)):
        centred = x[r] - L.row_sum(x[r]) * (1 / W)
        variance = L.row_sum((centred * (1 / W)) * centred)
        y[r] <<= centred * L.rsqrt(variance + eps) * w + b
