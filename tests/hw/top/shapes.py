"""Forty shapes for any kernel of the library, from what it declares."""

import math
import random
from collections.abc import Iterator
from itertools import cycle

import numpy as np

from kohakutpu.lang import Kernel

Shape = tuple[int, ...]
Case = tuple[Shape, tuple[int, int, int, int]]
"""Leading batch dimensions, and the sizes of a kernel's own dimensions in their order."""

COUNT = 40
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 31, 32, 33, 36, 48, 63, 64, 65, 96, 100, 130)
BATCHES: tuple[Shape, ...] = ((), (), (1,), (2,), (3,), (2, 3))
WORK = 120_000  # multiply-accumulates, at most, of the first three sizes and the batch
CHOSEN: list[Case] = [
    ((), (1, 1, 1, 1)),
    ((2, 3), (1, 2, 1, 3)),
    ((), (1, 130, 1, 1)),
    ((), (130, 1, 1, 130)),
    ((), (1, 1, 130, 1)),
    ((1,), (4, 32, 4, 4)),
    ((), (16, 64, 16, 64)),
    ((), (64, 16, 64, 16)),
    ((), (5, 384, 3, 7)),
    ((3,), (33, 31, 17, 20)),
]


def cases() -> list[Case]:
    """Return `COUNT` cases, no two with the same first two sizes."""
    rng = random.Random(1)
    found = {sizes[:2]: (batch, sizes) for batch, sizes in CHOSEN}
    while len(found) < COUNT:
        batch = rng.choice(BATCHES)
        sizes = (rng.choice(SIZES), rng.choice(SIZES), rng.choice(SIZES), rng.choice(SIZES))
        if math.prod((*batch, *sizes[:3])) <= WORK:
            found.setdefault(sizes[:2], (batch, sizes))
    return list(found.values())


def operands(kernel: Kernel, case: Case) -> list[Shape]:
    """Return the shapes of a kernel's operands."""
    batch, sizes = case
    named = dict.fromkeys(symbol for buffer in kernel.ins for symbol in buffer.shape)
    values = dict(zip(named, cycle(sizes), strict=False))
    return [
        (*batch, *sizes[:2])
        if buffer.any_rank
        else (*(batch if buffer.batched else ()), *(values[symbol] for symbol in buffer.shape))
        for buffer in kernel.ins
    ]


def arrays(kernel: Kernel, number: int, case: Case) -> Iterator[np.ndarray]:
    """Yield normally distributed operands, the same in every run."""
    for index, shape in enumerate(operands(kernel, case)):
        values = np.random.default_rng([number, index]).standard_normal(shape)
        yield values.astype({"fp16": np.float16, "fp32": np.float32}[kernel.ins[index].dtype])
