"""``mlp``: how much of two layers a unit computes at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api import fitting
from kohakutpu.api.array import common_device
from kohakutpu.api.tensor import Tensor
from kohakutpu.kernels.mlp import kernel_for

HIDDEN = 64  # units of the hidden layer at a time: bits may depend on it
BLOCKS = (64, 32, 16, 8, 4)
COLUMNS = (512, 256, 128, 64, 32, 4)
RATE = 512  # products a cycle
WORD = 16  # elements of FP16


def mlp(
    x: Tensor,
    up: Tensor,
    down: Tensor,
    *,
    gate: Tensor | None = None,
    up_bias: Tensor | None = None,
    down_bias: Tensor | None = None,
    residual: Tensor | None = None,
    activation: str = "gelu",
    precision: str = "default",
) -> Tensor:
    """Return ``activation(x @ up.T + up_bias) @ down.T + down_bias + residual`` in one pass.

    With `gate` the hidden layer is ``activation(x @ gate.T) * (x @ up.T + up_bias)``. It never goes
    to memory.

    Parameters
    ----------
    x : Tensor
        Shape ``(..., K)``.
    up, gate : Tensor
        Shape ``(F, K)``.
    down : Tensor
        Shape ``(N, F)``.
    up_bias, down_bias : Tensor, optional
        Shapes ``(F,)`` and ``(N,)``.
    residual : Tensor, optional
        Shape ``(..., N)``.
    activation : str
        One of `kohakutpu.kernels.linear.ACTIVATIONS`.
    precision : {"default", "left", "high"}
        Of all contractions.

    Returns
    -------
    Tensor
        Shape ``(..., N)``. The hidden layer is rounded to FP16 before and after the activation.

    Raises
    ------
    CallError
        If the shapes do not go together.
    """
    optional = (gate, up_bias, down_bias, residual)
    device = common_device("mlp", [x, up, down, *(t for t in optional if t is not None)])
    check_shapes(x, up, down, gate, up_bias, down_bias, residual)
    depth, (outputs, inner) = x.shape[-1], down.shape
    shape = (*x.shape[:-1], outputs)
    if not math.prod(shape):
        return Tensor.empty(device, shape, "fp16")
    rows = math.prod(shape[:-1])
    operands = [fitting.filled(x.view((rows, depth)))]
    if gate is not None:
        operands.append(fitting.filled(gate))
    operands += [fitting.filled(up), fitting.filled(down)]
    biased = up_bias is not None or down_bias is not None
    if biased:
        for bias, count in ((up_bias, inner), (down_bias, outputs)):
            zero = np.zeros(count, np.float16)
            given = Tensor.upload(device, zero, "fp16") if bias is None else bias.contiguous()
            operands.append(given)
    if residual is not None:
        operands.append(residual.view((rows, outputs)))
    kernel = kernel_for(gate is not None, biased, residual is not None)
    knobs: dict[str, Any] = {"activation": activation, "precision": precision, "hidden": HIDDEN}
    layers = 2 if gate is not None else 1
    return fitting.run(
        [
            (kernel, operands, knobs | {"block": block, "columns": columns})
            for block, columns in sizes(
                rows, depth * inner * layers, inner, outputs, len(device.machine.pairs)
            )
        ]
    ).view(shape)


def sizes(rows: int, first: int, inner: int, outputs: int, pairs: int) -> list[tuple[int, int]]:
    """Return blocks of rows and columns, the ones with the least work first.

    Parameters
    ----------
    rows : int
        Of the result.
    first : int
        Products a row of the first contractions, which every block of columns computes again.
    inner, outputs : int
        Units of the hidden layer and of the result.
    pairs : int
        Clusters that share the blocks.
    """

    def cycles(size: tuple[int, int]) -> float:
        block, columns = size
        across = -(-outputs // columns)
        busiest = -(-(-(-rows // block) * across) // pairs)  # instances of the busiest cluster
        products = first + inner * min(columns, outputs)  # of an instance, a row
        return busiest * products * max(block / RATE, 1 / WORD)

    found = [(b, columns) for b in BLOCKS if b < rows + BLOCKS[-1] for columns in COLUMNS]
    return sorted(found, key=lambda pair: (cycles(pair), -pair[0], pair[1]))


def check_shapes(
    x: Tensor,
    up: Tensor,
    down: Tensor,
    gate: Tensor | None,
    up_bias: Tensor | None,
    down_bias: Tensor | None,
    residual: Tensor | None,
) -> None:
    """Check that all operands go together.

    Raises
    ------
    CallError
        If they do not.
    """
    if not x.ndim or up.ndim != 2 or down.ndim != 2 or not x.shape[-1] or not down.shape[1]:
        raise CallError(
            f"mlp takes x (..., K), up (F, K) and down (N, F), not {x.shape}, {up.shape} and "
            f"{down.shape}",
            loc=caller(),
            fix="weights are stored as (outputs, inputs), and neither K nor F is 0",
        )
    inner, outputs = down.shape[1], down.shape[0]
    wanted = {
        "up": (up, (inner, x.shape[-1])),
        "gate": (gate, (inner, x.shape[-1])),
        "up_bias": (up_bias, (inner,)),
        "down_bias": (down_bias, (outputs,)),
        "residual": (residual, (*x.shape[:-1], outputs)),
    }
    for name, (operand, shape) in wanted.items():
        if operand is not None and operand.shape != shape:
            raise CallError(
                f"mlp: {name} has shape {operand.shape}; x {x.shape} and down {down.shape} want "
                f"{shape}",
                loc=caller(),
                fix="weights are stored as (outputs, inputs)",
            )
