# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Gated layers in one pass: two products of one input, live at once, meet in the vector core.

Neither product reaches memory, and each chunk of ``x`` is loaded once for both. Products are
rounded to FP16 as they leave the accumulator, the activation and the multiplication are FP32, and
the store rounds once more.

``x`` is ``(..., M, K)``, both weights ``(N, K)``, the result ``(..., M, N)``. Numerics and the
knobs are those of `contraction`.
"""

from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.kernels.linear import activate
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def gated(name, activation):
    """Return the kernel of a gated layer with an activation of `linear.ACTIVATIONS`."""

    def body(
        x=L.In(..., M, K),
        gate=L.In(N, K),
        up=L.In(N, K),
        y=L.Out(..., M, N),
        *,
        gm=None,
        gn=None,
        nk=None,
        precision="default",
    ):
        for i, j in grid(x.tiles(gm), gate.tiles(gn)):
            g = L.tile(gm, gn, nk, precision=precision)
            u = L.tile(gm, gn, nk, precision=precision)
            for k in sweep(x.chunks32(nk)):
                g += x[i, k] @ gate[j, k]
                u += x[i, k] @ up[j, k]
            y[i, j] <<= activate(activation, g) * u

    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"``y = {activation}(x @ gate.T) * (x @ up.T)``."
    return kernel(body)


swiglu = gated("swiglu", "silu")
geglu = gated("geglu", "gelu")  # the tanh form of gelu
