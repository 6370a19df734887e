# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""A layer in one pass: a contraction whose tile is worked on along its way out.

The product never reaches memory. It is rounded to FP16 as it leaves the accumulator, all that
follows is FP32, and the store rounds once more. So what does one thing to a product (`linear_silu`,
`linear_bias`, `linear_residual`) equals `matmul` followed by the separate kernel, bit for bit; what
does several rounds less often than the separate kernels do.

``x`` is ``(..., M, K)``, a weight ``(N, K)``, shared by a batch of ``x``, and the result
``(..., M, N)``. `bias` has one element a column; `residual` has the shape of the result. Numerics
and the knobs ``gm gn nk precision`` are those of `contraction`.
"""

from kohakuaccel.errors import KernelError
from kohakuaccel.lang import dims, grid
from kohakuaccel.source import caller
from kohakutpu import lang as L
from kohakutpu.kernels.contraction import product
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")

ACTIVATIONS = {
    "none": lambda value: value,
    "silu": L.silu,
    "gelu": L.gelu,
    "relu": L.relu,
    "sigmoid": L.sigmoid,
    "tanh": L.tanh,
}


def activate(name, value):
    """Return ``value`` after the activation `name`, one of `ACTIVATIONS`.

    Raises
    ------
    KernelError
        If there is none of that name.
    """
    if name not in ACTIVATIONS:
        raise KernelError(
            f"there is no activation {name!r}",
            loc=caller(),
            fix=f"use one of {', '.join(map(repr, ACTIVATIONS))}",
        )
    return ACTIVATIONS[name](value)


def layer(activation, value, *terms):
    """Return the activation of ``value``, with each term added on its side of it, in order.

    A term is a value and whether it is added before the activation.
    """
    for term, before in terms:
        value = value + term if before else value
    value = activate(activation, value)
    for term, before in terms:
        value = value if before else value + term
    return value


@kernel
def linear(
    x=L.In(..., M, K),
    w=L.In(N, K),
    y=L.Out(..., M, N),
    *,
    activation="none",
    gm=None,
    gn=None,
    nk=None,
    precision="default",
):
    """``y = activation(x @ w.T)``; ``activation`` is one of `ACTIVATIONS`."""
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        y[i, j] <<= activate(activation, product(x, w, i, j, gm, gn, nk, precision))


def linear_with(activation):
    """Return `linear` under the name of an activation."""

    def body(
        x=L.In(..., M, K),
        w=L.In(N, K),
        y=L.Out(..., M, N),
        *,
        gm=None,
        gn=None,
        nk=None,
        precision="default",
    ):
        for i, j in grid(x.tiles(gm), w.tiles(gn)):
            y[i, j] <<= activate(activation, product(x, w, i, j, gm, gn, nk, precision))

    body.__name__ = body.__qualname__ = f"linear_{activation}"
    body.__doc__ = f"``y = {activation}(x @ w.T)``: `linear` with this activation."
    return kernel(body)


linear_silu = linear_with("silu")
linear_gelu = linear_with("gelu")
linear_relu = linear_with("relu")


@kernel
def linear_bias(
    x=L.In(..., M, K),
    w=L.In(N, K),
    bias=L.In(N),
    y=L.Out(..., M, N),
    *,
    activation="none",
    bias_first=True,
    gm=None,
    gn=None,
    nk=None,
    precision="default",
):
    """``y = activation(x @ w.T + bias)``.

    Without ``bias_first`` it is ``activation(x @ w.T) + bias``.
    """
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        acc = product(x, w, i, j, gm, gn, nk, precision)
        y[i, j] <<= layer(activation, acc, (bias[j], bias_first))


@kernel
def linear_residual(
    x=L.In(..., M, K),
    w=L.In(N, K),
    residual=L.In(..., M, N),
    y=L.Out(..., M, N),
    *,
    activation="none",
    residual_first=False,
    gm=None,
    gn=None,
    nk=None,
    precision="default",
):
    """``y = activation(x @ w.T) + residual``.

    With ``residual_first`` it is ``activation(x @ w.T + residual)``.
    """
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        acc = product(x, w, i, j, gm, gn, nk, precision)
        y[i, j] <<= layer(activation, acc, (residual[i, j], residual_first))


@kernel
def linear_bias_residual(
    x=L.In(..., M, K),
    w=L.In(N, K),
    bias=L.In(N),
    residual=L.In(..., M, N),
    y=L.Out(..., M, N),
    *,
    activation="none",
    bias_first=True,
    residual_first=False,
    gm=None,
    gn=None,
    nk=None,
    precision="default",
):
    """``y = activation(x @ w.T + bias) + residual``.

    Without ``bias_first`` the bias, with ``residual_first`` the residual goes to the other side of
    the activation. On either side the bias is added before the residual.
    """
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        acc = product(x, w, i, j, gm, gn, nk, precision)
        terms = (bias[j], bias_first), (residual[i, j], residual_first)
        y[i, j] <<= layer(activation, acc, *terms)
