"""Kernels broken by chance: one to three small changes to a text or to what it is called with."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.fuzz.writer import HEAD, Source

Lines = list[str]


class Mutation:
    """Changes to one source, drawn by chance."""

    def __init__(self, source: Source, seed: int) -> None:
        self.random = random.Random(seed)
        self.source = source
        self.lines = source.text.removeprefix(HEAD).splitlines()
        self.arrays = list(source.arrays)
        self.knobs = dict(source.knobs)

    def apply(self) -> Source:
        changes: list[Callable[[], None]] = [
            self.number, self.number, self.drop, self.double, self.swap_lines, self.indices,
            self.assignment, self.other_name, self.other_word, self.other_word, self.offset,
            self.offset, self.argument, self.argument, self.knob, self.python,
        ]  # fmt: skip
        for change in self.random.sample(changes, self.random.choice((1, 1, 1, 2, 3))):
            change()
        text = HEAD + "\n".join(self.lines) + "\n"
        return replace(self.source, text=text, arrays=self.arrays, knobs=self.knobs)

    def pick_line(self, pattern: str = r"\S", signature: bool = False) -> int | None:
        start = 0 if signature else 1
        found = [n for n in range(start, len(self.lines)) if re.search(pattern, self.lines[n])]
        return self.random.choice(found) if found else None

    def substitute(self, pattern: str, to: Callable[[str], str], signature: bool = False) -> None:
        """Replace one occurrence of a pattern, somewhere."""
        place = self.pick_line(pattern, signature)
        if place is None:
            return
        line = self.lines[place]
        match = self.random.choice(list(re.finditer(pattern, line)))
        self.lines[place] = line[: match.start()] + to(match[0]) + line[match.end() :]

    # ------------------------------------------------------------------ changes

    def number(self) -> None:
        others = ("0", "-1", "1", "2", "3", "24", "1024", "2.5", "None", "'a'", "True")
        self.substitute(r"(?<![\w.])\d+(?![\w.])", lambda _: self.random.choice(others))

    def drop(self) -> None:
        place = self.pick_line()
        if place is None:
            return
        line = self.lines[place]
        margin = line[: len(line) - len(line.lstrip())]
        self.lines[place] = margin + ("if True:" if line.rstrip().endswith(":") else "pass")

    def double(self) -> None:
        place = self.pick_line(r"<<=|\+=|L\.tile|L\.state|L\.temp")
        if place is not None:
            self.lines.insert(place, self.lines[place])

    def swap_lines(self) -> None:
        pairs = [
            n
            for n in range(1, len(self.lines) - 1)
            if not self.lines[n].rstrip().endswith(":")
            and not self.lines[n + 1].rstrip().endswith(":")
            and self.lines[n].split(self.lines[n].strip())[0]
            == self.lines[n + 1].split(self.lines[n + 1].strip())[0]
        ]
        if pairs:
            n = self.random.choice(pairs)
            self.lines[n : n + 2] = reversed(self.lines[n : n + 2])

    def indices(self) -> None:
        self.substitute(r"\[(\w+), (\w+)\]", lambda t: "[{1}, {0}]".format(*t[1:-1].split(", ")))

    def assignment(self) -> None:
        self.substitute(r"<<=|\+=| = ", lambda _: self.random.choice((" <<= ", " += ", " = ")))

    def other_name(self) -> None:
        names = re.findall(r"\b[xyt]\d\b|\b[pqsmvhijkre]\b|\bacc\b|\bv\d+\b", "\n".join(self.lines))
        if names:
            name = r"\b[xyt]\d\b|\b[pqsmvhijkre]\b|\bacc\b|\bv\d+\b"
            self.substitute(name, lambda _: self.random.choice(names))

    def other_word(self) -> None:
        groups = (
            ("rows", "parts", "tiles", "chunks32"),
            ("grid", "stage", "sweep", "units", "range"),
            ("M", "N", "K", "E"),
            ("L.In", "L.Out"),
            ("L.row_max", "L.row_sum", "L.exp2", "L.silu"),
            ("L.tile", "L.state", "L.temp", "L.region"),
            ("..., ", ""),
            ("@", "*", "+", "<"),
            ('"fp32"', '"fp16"', '"int8"'),
            ('"high"', '"left"', '"low"'),
        )
        words = self.random.choice(groups)
        pattern = "|".join((rf"\b{w}\b" if w[0].isalpha() else re.escape(w)) for w in words if w)
        self.substitute(pattern, lambda _: self.random.choice(words), signature=True)

    def offset(self) -> None:
        change = self.random.choice((" - 1", " + 1", " * 2", " // 2", " % 2", " / 2", "[0]"))
        where = self.random.choice(
            (r"(?<=[\[, ])[ijkrefcu](?=[\],])", r"\.\w+\(\w+\)", r"\w+\[\w\]")
        )
        self.substitute(where, lambda t: t + change)

    def argument(self) -> None:
        if not self.arrays:
            return
        place = self.random.randrange(len(self.arrays))
        array = self.arrays[place]
        change = self.random.choice(("axis", "less", "extent", "empty", "format", "turn", "drop"))
        if change == "axis":
            array = array[None]
        elif change == "less" and array.ndim:
            array = array[0]
        elif change == "extent" and array.ndim:
            axis = self.random.randrange(array.ndim)
            array = np.concatenate([array, array], axis)
        elif change == "empty" and array.ndim:
            array = array[..., :0] if self.random.random() < 0.5 else array[:0]
        elif change == "format":
            array = array.astype(np.float32 if array.dtype == np.float16 else np.float16)
        elif change == "turn":
            array = np.ascontiguousarray(array.T)
        self.arrays[place] = array
        if change == "drop":
            del self.arrays[place]

    def knob(self) -> None:
        if self.knobs:
            name = self.random.choice(list(self.knobs))
            self.knobs[name] = self.random.choice((0, -1, 3, 24, 2000, 10**9))

    def python(self) -> None:
        """Ask for a number where there is none yet."""
        form = self.random.choice(
            ("float({})", "int({})", "len({})", "max({}, 0)", "({} if {} else 0)", "np.exp({})",
             "math.sqrt({})", "[*{}][0]", "{}.T", "{}[0]", "({} and {})", "{}.shape[0]", "str({})")
        )  # fmt: skip
        self.substitute(r"\w+\[\w+\]|\bv\d+\b|\b[MN]\b", lambda t: form.format(t, t))


def mutated(source: Source, seed: int) -> Source:
    """Return a source with changes drawn from `seed`."""
    return Mutation(source, seed).apply()
