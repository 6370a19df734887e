"""Tensors: put arrays on the machine, compute there, bring results back.

python examples/kohakutpu/01_tensors.py
"""

import numpy as np

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu

rng = np.random.default_rng(0)

# A tensor takes whatever numpy takes and stores it as FP16.
x = ktpu.tensor(rng.standard_normal((48, 100)))
w = ktpu.tensor(rng.standard_normal((10, 100)) / 10)  # (outputs, inputs)
print(x)  # shape, dtype and device; no data crosses

# `@` contracts the last axis of both operands, so a weight is used as it is stored.
y = (x @ w).silu()
print("y        ", y.numpy()[0, :4])  # numpy() is the line that brings data back

# Operands of a contraction are rounded to MXINT8. precision="high" adds what that rounding left.
exact = x.numpy().astype(np.float64) @ w.numpy().astype(np.float64).T
for precision in ("default", "high"):
    error = ktpu.matmul(x, w, precision=precision).numpy() - exact
    print(f"{precision:9} relative error {np.sqrt(np.mean(error**2) / np.mean(exact**2)):.1e}")

# Elementwise arithmetic broadcasts as in numpy: computed in FP32, stored as FP16. Python numbers
# take part as they are.
column = ktpu.tensor(np.linspace(0, 1, 48)[:, None])
scaled = (x - ktpu.tensor(np.full(100, 0.5))) * column / 3
print("scaled   ", scaled.shape, np.abs(scaled.numpy()[-1]).max())
print("clipped  ", ktpu.minimum(ktpu.maximum(x, -1), 1).numpy()[0, :4])

# Functions along the last axis.
probabilities = y.softmax()
print("row sums ", probabilities.sum().numpy()[:4])  # the axis goes: shape (48,)
normal = x.layernorm(ktpu.full(100, 1), ktpu.zeros(100))
print("variance ", (normal * normal).mean().numpy()[:4])

# A batch on either side: 6 matrices, one weight for all of them.
batch = ktpu.tensor(rng.standard_normal((6, 8, 100)))
print("batch    ", (batch @ w).shape)

# What FP16 cannot hold is an error that says where, not an Inf, unless you ask for it.
try:
    ktpu.tensor([1.0, 7e4])
except CallError as error:
    print(f"\n{error}\n")

# The same program on a larger machine: the same bits.
with ktpu.device("golden", machine="duo"):
    again = (ktpu.tensor(x) @ ktpu.tensor(w)).silu()
assert np.array_equal(again.numpy(), y.numpy())

print(ktpu.stats())
