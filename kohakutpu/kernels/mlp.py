# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Two layers in one pass: the hidden layer is nowhere but in the units that compute it.

A unit holds a block of the result in its accumulator and goes over blocks of the hidden layer: each
comes out of the accumulator, through the activation, and back as the operand of the second
contraction. It is rounded to FP16 twice, as it leaves and as it goes back; what is between is FP32.
"""

from functools import cache
from inspect import Parameter, Signature

from kohakuaccel.lang import dims, sweep, units
from kohakutpu import lang as L
from kohakutpu.kernels.linear import activate
from kohakutpu.lang import Kernel, kernel

M, K, F, N = dims("M, K, F, N")


@cache
def kernel_for(gated: bool = False, biased: bool = False, residual: bool = False) -> Kernel:
    """Return the kernel for ``y = activation(x @ up.T) @ down.T`` with more operands.

    Shapes: ``x`` is ``(..., M, K)``, ``up`` ``(F, K)``, ``down`` ``(N, F)``, ``y`` ``(..., M, N)``.
    Its knobs are ``activation``, one of `linear.ACTIVATIONS`; blocks of rows, a multiple of 4, of
    the hidden layer, of 32, and of columns, of 4: ``block``, ``hidden`` and ``columns``; ``nk`` and
    ``precision`` as in `contraction`. The hidden layer is computed again for each block of columns.
    Bits depend on ``hidden`` alone of all sizes, and that only at a precision that sweeps K more
    than once.

    Parameters
    ----------
    gated : bool
        ``gate``, shape ``(F, K)``, comes before ``up``: the hidden layer is
        ``activation(x @ gate.T) * (x @ up.T)``.
    biased : bool
        ``up_bias``, shape ``(F,)``, is added to ``x @ up.T``, and ``down_bias``, shape ``(N,)``, to
        the result.
    residual : bool
        ``residual``, of the shape of ``y``, is added to the result.
    """
    tensors = {"x": L.In(..., M, K)}
    if gated:
        tensors["gate"] = L.In(F, K)
    tensors |= {"up": L.In(F, K), "down": L.In(N, F)}
    if biased:
        tensors |= {"up_bias": L.In(F), "down_bias": L.In(N)}
    if residual:
        tensors["residual"] = L.In(..., M, N)
    tensors["y"] = L.Out(..., M, N)

    def mlp(*operands, activation, block, hidden, columns, nk, precision):
        given = dict(zip(tensors, operands, strict=True))
        x, up, down, y = (given[name] for name in ("x", "up", "down", "y"))

        with units(x.rows(block), down.rows(columns)) as (i, j):
            acc = L.tile(precision=precision)
            for f in sweep(up.rows(hidden)):
                u = L.tile(nk=nk, precision=precision)
                g = L.tile(nk=nk, precision=precision) if gated else None
                for c in sweep(x.chunks32(nk)):
                    u += x[i, c] @ up[f, c]
                    if gated:
                        g += x[i, c] @ given["gate"][f, c]
                inner = u + given["up_bias"][f] if biased else u
                acc += (
                    activate(activation, g) * inner if gated else activate(activation, inner)
                ) @ down[j, f]
            value = acc + given["down_bias"][j] if biased else acc
            y[i, j] <<= value + given["residual"][i, j] if residual else value

    knobs = {
        "activation": "gelu",
        "block": 16,
        "hidden": 64,
        "columns": 64,
        "nk": None,
        "precision": "default",
    }
    mlp.__name__ = mlp.__qualname__ = "gated_mlp" if gated else "mlp"
    mlp.__signature__ = Signature(
        [
            *(Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=d) for n, d in tensors.items()),
            *(Parameter(n, Parameter.KEYWORD_ONLY, default=d) for n, d in knobs.items()),
        ]
    )
    return kernel(mlp)


mlp = kernel_for()
gated_mlp = kernel_for(gated=True)
