"""The kernel library: everything the tensor level does, written in the language.

Read them as examples; call them with tensors to state a knob the tensor level leaves open.
"""

from kohakutpu.kernels.activation import gelu, relu, silu
from kohakutpu.kernels.attention import attention
from kohakutpu.kernels.contraction import batched_matmul, matmul
from kohakutpu.kernels.elementwise import (
    abs,
    add,
    div,
    exp2,
    log2,
    maximum,
    minimum,
    mul,
    neg,
    recip,
    rsqrt,
    sub,
    where,
)
from kohakutpu.kernels.gated import geglu, swiglu
from kohakutpu.kernels.group import group_norm
from kohakutpu.kernels.linear import (
    linear,
    linear_bias,
    linear_bias_residual,
    linear_gelu,
    linear_relu,
    linear_residual,
    linear_silu,
)
from kohakutpu.kernels.mlp import gated_mlp, mlp
from kohakutpu.kernels.rotary import rope
from kohakutpu.kernels.rows import layernorm, rmsnorm, row_max, row_mean, row_min, row_sum, softmax

__all__ = [
    "abs",
    "add",
    "attention",
    "batched_matmul",
    "div",
    "exp2",
    "gated_mlp",
    "geglu",
    "gelu",
    "group_norm",
    "layernorm",
    "linear",
    "linear_bias",
    "linear_bias_residual",
    "linear_gelu",
    "linear_relu",
    "linear_residual",
    "linear_silu",
    "log2",
    "matmul",
    "maximum",
    "minimum",
    "mlp",
    "mul",
    "neg",
    "recip",
    "relu",
    "rmsnorm",
    "rope",
    "row_max",
    "row_mean",
    "row_min",
    "row_sum",
    "rsqrt",
    "silu",
    "softmax",
    "sub",
    "swiglu",
    "where",
]
