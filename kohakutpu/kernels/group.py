# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Normalisation of groups of channels, channels before positions as in ``(N, C, H, W)``.

A group is too large for one unit in general, so sums go through small FP32 buffers of one element a
channel: each channel's own sum, and then the group's, the same for all of its channels.
"""

from kohakuaccel.lang import dims, stage
from kohakutpu import lang as L
from kohakutpu.lang import kernel

C, S = dims("C, S")


@kernel
def group_norm(
    x=L.In(..., C, S),
    w=L.In(..., C),
    b=L.In(..., C),
    y=L.Out(..., C, S),
    *,
    n=None,
    eps=1e-5,
):
    """``y = (x - mean) / sqrt(var + eps) * w + b``, mean and variance of all elements of a group.

    Shapes ``(..., G, C, S)``, ``(G, C)``, ``(G, C)``: G groups of C channels of S elements each, of
    which the kernel describes one. Sums are FP32, along a channel first and then over the channels;
    the variance is the mean of the squared distances from the mean, in a second pass.
    """
    share = 1 / (C * S)
    sums, mean = L.temp(C, dtype="fp32"), L.temp(C, dtype="fp32")
    squares, scale = L.temp(C, dtype="fp32"), L.temp(C, dtype="fp32")
    with stage(x.rows()) as c:
        sums[c] <<= L.row_sum(x[c])
    with stage(sums.rows(1)) as g:
        mean[g] <<= L.row_sum(sums[g]) * share
    with stage(x.rows()) as c:
        centred = x[c] - mean[c]
        squares[c] <<= L.row_sum(centred * share * centred)
    with stage(squares.rows(1)) as g:
        scale[g] <<= L.rsqrt(L.row_sum(squares[g]) + eps)
    with stage(x.rows(n)) as c:
        y[c] <<= (x[c] - mean[c]) * scale[c] * w[c] + b[c]
