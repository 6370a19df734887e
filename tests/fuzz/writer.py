"""Pieces of random kernels: arguments, knobs, grids, expressions."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HEAD = """\
import math
import numpy as np
from kohakuaccel.lang import dims, grid, stage, sweep, units
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, N, K, E = dims("M, N, K, E")


@kernel
"""
UNARY = ("L.exp2({})", "L.log2({})", "L.recip({})", "L.rsqrt({})", "L.abs({})", "-{}")
COMPOSED = (
    "L.silu({})", "L.gelu({})", "L.relu({})", "L.sigmoid({})", "L.tanh({})", "L.sqrt({})",
    "L.exp({})", "L.erf({})", "{} ** 2", "{} ** 3", "{} ** -1", "{} ** 0.5", "L.clamp({}, -1, 2.5)",
)  # fmt: skip
BINARY = (
    "({} + {})", "({} - {})", "({} * {})", "({} / {})", "L.maximum({}, {})", "L.minimum({}, {})",
    "({} < {})", "({} >= {})", "({} == {})", "({} != {})",
)  # fmt: skip
ROWS = ("L.row_sum({})", "L.row_max({})", "L.row_min({})", "L.row_mean({})")
NUMBERS = ("0", "1", "-0.5", "2.0", "0.1", "1e-3", "math.inf", "-3", "65504", "1e30")
SYMBOLIC = ("1 / N", "M * 0.5", "N ** -0.5", "M")
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, -65504.0, 6e-8, 6.1e-5)


@dataclass
class Source:
    """A kernel and what to call it with.

    ``knobs`` are numbers for everything; what is in ``left_open`` the compiler may decide itself.
    """

    text: str
    arrays: list[np.ndarray]
    knobs: dict[str, int] = field(default_factory=dict[str, int])
    left_open: list[str] = field(default_factory=list[str])


class Writer:
    """The text of a kernel on its way, and what chance says next."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.printing = random.Random(-1 - seed)
        self.numbers = np.random.default_rng(seed)
        self.declared: list[str] = []
        self.arrays: list[np.ndarray] = []
        self.lines: list[str] = []
        self.knobs: dict[str, int] = {}
        self.names = iter(f"v{n}" for n in range(1000))
        pick = self.random.choice
        self.m, self.n, self.k = (
            pick((1, 3, 5, 8, 17, 33)),
            pick((1, 4, 7, 16, 21, 40)),
            pick((1, 5, 32, 33, 70, 100)),
        )
        self.batch: tuple[int, ...] = pick(((), (), (2,), (3, 1)))

    # ------------------------------------------------------------------ pieces

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, choices: Any) -> Any:
        return self.random.choice(list(choices))

    def values(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        array = self.numbers.normal(size=shape) * self.pick((1, 1, 1, 8, 200))
        flat = array.reshape(-1)
        if self.chance(0.3):
            for _ in range(min(3, flat.size)):
                flat[self.random.randrange(flat.size)] = self.pick(SPECIAL)
        with np.errstate(over="ignore"):
            return array.astype(np.float16 if dtype == "fp16" else np.float32)

    def argument(self, axes: str, shape: tuple[int, ...], dtype: str = "fp16") -> str:
        name = f"x{len(self.arrays)}"
        options = "" if dtype == "fp16" else f', dtype="{dtype}"'
        self.declared.append(f"{name}=L.In({axes}{options})".replace("(, ", "("))
        batched = axes.startswith("...") and axes != "..."
        lead = self.batch if batched else ()
        if lead and self.chance(0.3):
            lead = tuple(self.pick((1, n)) for n in lead)[self.random.randint(0, len(lead)) :]
        self.arrays.append(self.values((*lead, *shape), dtype))
        return name

    def knob(self, *sizes: int) -> str:
        if self.chance(0.4):
            return str(self.pick(sizes))
        name = f"g{len(self.knobs)}"
        self.knobs[name] = self.pick(sizes)
        return name

    def emit(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)
        named = re.match(r"([vzmpw]\d*) = (?!L.tile)", line)
        passes = any(re.match(" +for u in", earlier) for earlier in self.lines)
        if named and not passes and self.printing.random() < 0.2:
            self.lines.append("    " * depth + f"L.print({named[1]})")

    def grid(self, depth: int, index: str, counts: str) -> None:
        single = "(" + index + ")" if "," in index else index
        form = self.pick(
            ("for {} in grid({}):", "with stage({1}) as {2}:", "with units({1}) as {2}:")
        )
        self.emit(depth, form.format(index, counts, single))

    def number(self) -> str:
        named = any("M, N" in declaration for declaration in self.declared)
        return self.pick(SYMBOLIC if named and self.chance(0.2) else NUMBERS)

    def expression(self, leaves: list[str], depth: int = 4) -> str:
        """An expression that reads one of the leaves at least."""
        if depth <= 0 or self.chance(0.15):
            return self.pick(leaves)
        chance = self.random.random()
        if chance < 0.55:
            other = self.number() if self.chance(0.2) else self.expression(leaves, depth - 1)
            both = [self.expression(leaves, depth - 1), other]
            form = self.pick(BINARY)
            if self.chance(0.3) and form in BINARY[:6]:
                both.reverse()
            return form.format(*both)
        if chance < 0.9:
            form = self.pick(UNARY if self.chance(0.5) else COMPOSED)
            inner = self.expression(leaves, depth - 1)
            return form.format(f"({inner})" if "**" in form else inner)
        condition, first = (self.expression(leaves, depth - 2) for _ in range(2))
        other = self.number() if self.chance(0.3) else self.expression(leaves, depth - 2)
        return f"L.where({condition}, {first}, {other})"

    def anchored(self, leaf: str, leaves: list[str], depth: int = 3) -> str:
        """An expression that varies as `leaf` does."""
        return self.pick(BINARY[:6]).format(leaf, self.expression(leaves, depth))
