"""A block of a transformer: norm, attention with shared keys, residual, norm, gated layers.

Eight kernels of the library run, and each writes its result alone: scores, probabilities and the
hidden layer never leave the chip. Heads are views of one projection, so nothing is rearranged.
"""

from dataclasses import dataclass

import numpy as np

from kohakutpu import api as ktpu
from kohakutpu import kernels

WIDTH, LENGTH, HEADS, GROUPS, HEAD, HIDDEN = 256, 128, 4, 2, 64, 512


@dataclass(frozen=True)
class Weights:
    """Parameters of a block; a matrix is stored as (outputs, inputs)."""

    first_norm: ktpu.Tensor
    heads: ktpu.Tensor  # queries, then keys, then values
    out: ktpu.Tensor
    second_norm: ktpu.Tensor
    gate: ktpu.Tensor
    up: ktpu.Tensor
    down: ktpu.Tensor


def block(x: ktpu.Tensor, w: Weights, cos: ktpu.Tensor, sin: ktpu.Tensor) -> ktpu.Tensor:
    """Return the block's output for activations ``(batch, length, width)``."""
    batch, length, _ = x.shape
    heads = (x.rmsnorm(w.first_norm) @ w.heads).reshape(batch, length, -1, HEAD)
    heads = heads.transpose(0, 2, 1, 3)
    q, k, v = heads[:, :HEADS], heads[:, HEADS:-GROUPS], heads[:, -GROUPS:]
    q, k = ktpu.rope(q, cos, sin), ktpu.rope(k, cos, sin)
    mixed = ktpu.attention(q, k, v, causal=True).transpose(0, 2, 1, 3)
    x = kernels.linear_residual(mixed.reshape(batch, length, -1), w.out, x)
    hidden = x.rmsnorm(w.second_norm)
    return ktpu.mlp(hidden, w.up, w.down, gate=w.gate, residual=x, activation="silu")


def weights(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return random parameters as arrays."""

    def matrix(outputs: int, inputs: int) -> np.ndarray:
        return (random.standard_normal((outputs, inputs)) * inputs**-0.5).astype(np.float16)

    return {
        "first_norm": np.ones(WIDTH, np.float16),
        "heads": matrix((HEADS + 2 * GROUPS) * HEAD, WIDTH),
        "out": matrix(WIDTH, HEADS * HEAD),
        "second_norm": np.ones(WIDTH, np.float16),
        "gate": matrix(HIDDEN, WIDTH),
        "up": matrix(HIDDEN, WIDTH),
        "down": matrix(WIDTH, HIDDEN),
    }


def main() -> None:
    """Run one block and say what it cost."""
    random = np.random.default_rng(0)
    w = Weights(**{name: ktpu.tensor(array) for name, array in weights(random).items()})
    tables = ktpu.rope_tables(LENGTH, HEAD)
    x = ktpu.tensor(random.standard_normal((1, LENGTH, WIDTH)))
    ktpu.reset_stats()
    y = block(x, w, *tables).numpy()
    print(f"one block on {y.shape[1]} rows of {y.shape[2]}: root mean square {y.std():.2f}")
    print(ktpu.stats())


if __name__ == "__main__":
    main()
