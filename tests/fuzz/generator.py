"""Random kernels, as text: whatever the language says, in combinations nobody would write."""

from __future__ import annotations

import re

from tests.fuzz.writer import BINARY, HEAD, ROWS, Source, Writer


class Generator(Writer):
    """One random kernel."""

    # ---------------------------------------------------------------- families

    def parts(self) -> None:
        """Elementwise work on runs of stored elements, in one stage or several."""
        axes = self.pick(("...", "M, N", "..., M, N"))
        shape = (self.m, self.n)
        if axes == "..." and self.chance(0.5):
            shape = self.pick(((), (self.n,), (2, self.m, self.n), (self.m, 1)))
        dtype = self.pick(("fp16", "fp16", "fp32"))
        whole = [self.argument(axes, shape, dtype) for _ in range(self.random.randint(1, 3))]
        scalars: list[str] = []
        if axes != "..." or self.chance(0.5):
            scalars = [self.argument("", (), d) for d in ("fp16", "fp32") if self.chance(0.5)]
        option = "" if dtype == "fp16" else ', dtype="fp32"'
        held = list(whole)
        if axes != "...":
            for number in range(self.random.randint(0, 2)):
                temp = f"t{number}"
                self.emit(1, f"{temp} = L.temp(M, N{option})")
                self.stage_of_parts(temp, held, scalars)
                held.append(temp)
        for number in range(self.random.randint(1, 2)):
            self.declared.append(f"y{number}=L.Out({axes}{option})")
            self.stage_of_parts(f"y{number}", held, scalars)

    def stage_of_parts(self, target: str, held: list[str], scalars: list[str]) -> None:
        size = self.knob(16, 32, 48, 160)
        self.grid(1, "e", f"{target}.parts({size})")
        leaves = [f"{name}[e]" for name in held] + scalars
        if self.chance(0.4):
            name = next(self.names)
            self.emit(2, f"{name} = {self.expression(leaves)}")
            leaves.append(name)
        self.emit(2, f"{target}[e] <<= {self.expression(leaves, 5)}")

    def rows(self) -> None:
        """Work on whole rows: scalars a row, shared rows, row functions, loops of stages."""
        lead = self.pick(("", "..., "))
        full = [self.argument(f"{lead}M, N", (self.m, self.n), self.format()) for _ in range(2)]
        others: list[str] = []  # as they stand
        indexed: list[str] = []
        if self.chance(0.6):
            others.append(self.argument(f"{lead if self.chance(0.5) else ''}N", (self.n,)))
        if self.chance(0.5):
            others.append(self.argument("", (), self.format()))
        if self.chance(0.3) and not lead:
            shape = f"np.linspace(-1, 1, {self.n})"
            self.emit(1, f"mask = L.table({shape})")
            others.append("mask")
        if self.chance(0.5):
            axes = self.pick(("M", "M, 1"))
            self.declared[0:0] = []
            indexed.append(
                self.argument(f"{lead}{axes}", (self.m,) if axes == "M" else (self.m, 1))
            )
        if self.chance(0.3):
            indexed.append(self.argument(f"{lead}2 * M, N", (2 * self.m, self.n)) + "[2 * {}]")
        for number in range(self.random.randint(0, 2)):
            temp, option = f"t{number}", self.pick(("", ', dtype="fp32"'))
            wide = self.chance(0.7)
            self.emit(1, f"{temp} = L.temp({'M, N' if wide else 'M'}{option})")
            self.stage_of_rows(temp, wide, full, indexed, others)
            if wide and self.chance(0.3):
                self.emit(1, f"for u in sweep({self.random.randint(1, 3)}):")
                size = self.knob(1, 2, 5, 64)
                self.grid(2, "r", f"x0.rows({size})")
                self.emit(3, f"{temp}[r] <<= {self.anchored(temp + '[r]', ['x0[r]'])}")
            (full if wide else indexed).append(temp)
        for number in range(self.random.randint(1, 2)):
            wide = self.chance(0.6)
            option = self.pick(("", "", ', dtype="fp32"'))
            self.declared.append(f"y{number}=L.Out({lead}{'M, N' if wide else 'M'}{option})")
            self.stage_of_rows(f"y{number}", wide, full, indexed, others)

    def format(self) -> str:
        return self.pick(("fp16", "fp16", "fp16", "fp32"))

    def packed_columns(self) -> bool:
        """Whether some buffer holds a column in one row."""
        return any("temp(M" in t and "temp(M, N" not in t for t in self.lines) or any(
            "(M)" in d or "(..., M)" in d or "(M, dtype" in d or "(..., M, dtype" in d
            for d in self.declared
        )

    def stage_of_rows(
        self, target: str, wide: bool, full: list[str], indexed: list[str], others: list[str]
    ) -> None:
        moved = [name for name in indexed if "{}" in name]
        # A column in one row starts at a whole quarter: 4 elements of FP16.
        size = self.knob(4, 8, 64) if self.packed_columns() else self.knob(1, 2, 5, 64)
        use_moved = bool(moved) and self.chance(0.5) and not self.packed_columns()
        self.grid(1, "r", f"x0.rows({1 if use_moved else size})")
        leaves = [f"{name}[r]" for name in full]
        if use_moved:
            leaves += [name.format("r") for name in moved]
        scalars = [f"{name}[r]" for name in indexed if name not in moved]
        for _ in range(self.random.randint(0 if wide else 1, 2)):
            name = next(self.names)
            inner = self.anchored(self.pick(leaves), leaves + scalars + others, 2)
            self.emit(2, f"{name} = {self.pick(ROWS).format(inner)}")
            scalars.append(name)
        if wide:
            self.emit(2, f"{target}[r] <<= {self.expression(leaves + scalars + others, 4)}")
        else:
            self.emit(2, f"{target}[r] <<= {self.expression(scalars, 3)}")

    def tiles(self) -> None:
        """Contractions with an epilogue, one tile or two, K in one loop or two."""
        lead = self.pick(("", "..., "))
        a = self.argument(f"{lead}M, K", (self.m, self.k))
        b = self.argument(f"{self.pick(('', lead))}N, K", (self.n, self.k))
        second = self.argument("N, K", (self.n, self.k)) if self.chance(0.3) else ""
        extras = []
        if self.chance(0.5):
            extras.append(self.argument("N", (self.n,), self.format()) + "[j]")
        if self.chance(0.5):
            extras.append(self.argument(f"{lead}M, N", (self.m, self.n), self.format()) + "[i, j]")
        if self.chance(0.4):
            extras.append(self.argument("", (), self.format()))
        if self.chance(0.4):
            axes, shape = self.pick((("M", (self.m,)), ("M, 1", (self.m, 1))))
            extras.append(self.argument(f"{lead}{axes}", shape, self.format()) + "[i]")
        gm, gn, nk = self.knob(1, 2, 5), self.knob(1, 2, 4), self.knob(1, 2, 3)
        if self.chance(0.7):
            self.grid(1, "i, j", f"{a}.tiles({gm}), {b}.tiles({gn})")
            depth = 2
        else:
            self.grid(1, "i", f"{a}.tiles({gm})")
            self.emit(2, f"for j in sweep({b}.tiles({gn})):")
            depth = 3
        tiles = [("p", b)] + ([("q", second)] if second else [])
        precision = self.pick(("", "", ', precision="high"', ', precision="left"'))
        form = self.pick(("sweep", "sweep", "halves", "unrolled"))
        for tile, _ in tiles:
            sizes = f"{gm}, {gn}, {nk}" if self.chance(0.7) else f"nk={nk}"
            self.emit(depth, f"{tile} = L.tile({sizes}{precision})")
        self.region = self.chance(0.25)
        self.sides = ([], [])
        if form == "sweep" and self.chance(0.4):
            self.sides = self.computed_sides(lead)
        if self.region:
            self.emit(depth, f"ra, rb = L.region({gm}, {nk}), L.region({gn}, {nk})")
        chunks = -(-self.k // 32)
        if form == "unrolled" and (chunks > 3 or nk != "1"):
            form = "sweep"
        if form == "halves":
            self.emit(depth, f"half = {a}.chunks32({nk}) // 2")
            self.emit(depth, "for k in sweep(half):")
            self.sums(depth + 1, a, tiles, "k")
            self.emit(depth, f"for k in sweep({a}.chunks32({nk}) - half):")
            self.sums(depth + 1, a, tiles, "half + k")
        elif form == "unrolled":
            self.emit(depth, f"for k in range({chunks}):")
            self.sums(depth + 1, a, tiles, "k")
        else:
            self.emit(depth, f"for k in sweep({a}.chunks32({nk})):")
            self.sums(depth + 1, a, tiles, "k")
        leaves = [tile for tile, _ in tiles] + extras
        after = self.chance(0.3)
        for number in range(self.random.randint(1, 2)):
            option = self.pick(("", "", ', dtype="fp32"'))
            target = f"y{number}"
            if after and not number:
                self.lines.insert(0, f"    t = L.temp(M, N{option})")
                target = "t"
            else:
                self.declared.append(f"y{number}=L.Out({lead or self.lead(lead)}M, N{option})")
            value = "p" if self.chance(0.3) else self.anchored("p", leaves, 3)
            if second and number == 0 and not re.search(r"\bq\b", value):
                value = f"({value} + q)"
            self.emit(depth, f"{target}[i, j] <<= {value}")
        if after:
            self.declared.append(f"y9=L.Out({lead or self.lead(lead)}M, N)")
            self.grid(1, "r", f"t.rows({self.knob(1, 3, 16)})")
            self.emit(2, f"z = {self.pick(ROWS).format('t[r]')}")
            self.emit(2, f"y9[r] <<= {self.expression(['t[r]', 'z'], 3)}")

    def lead(self, lead: str) -> str:
        return "..., " if any("..." in d for d in self.declared) else lead

    def sums(self, depth: int, a: str, tiles: list[tuple[str, str]], k: str) -> None:
        left = self.side(f"{a}[i, {k}]", self.sides[0])
        if self.region:
            self.emit(depth, f"ra <<= {left}")
        for number, (tile, b) in enumerate(tiles):
            right = self.side(f"{b}[j, {k}]", self.sides[1])
            if self.region and not number:
                self.emit(depth, f"rb <<= {right}")
                self.emit(depth, f"{tile} += ra @ rb")
            elif self.region:
                self.emit(depth, f"{tile} += ra @ {right}")
            else:
                self.emit(depth, f"{tile} += {left} @ {right}")

    def computed_sides(self, lead: str) -> tuple[list[str], list[str]]:
        """What the left and the right operand are computed with, beside their windows."""
        both: tuple[list[str], list[str]] = ([], [])
        for leaves, axis, extent, index in (
            (both[0], "M", self.m, "i"),
            (both[1], "N", self.n, "j"),
        ):
            if self.chance(0.7 if axis == "N" else 0.3):
                leaves.append("{}")
                shape = self.pick(((axis, (extent,)), (f"{axis}, 1", (extent, 1))))
                if self.chance(0.6):
                    leaves.append(self.argument(shape[0], shape[1], self.format()) + f"[{index}]")
                if self.chance(0.4):
                    leaves.append(self.argument("K", (self.k,)) + "[k]")
        return both

    def side(self, window: str, leaves: list[str]) -> str:
        """A window, or a value of it: ``{}`` among the leaves is the window itself."""
        leaves = [leaf.format(window) for leaf in leaves]
        return self.anchored(window, leaves, 2) if leaves else window

    def state(self) -> None:
        """Loops that carry something: running maxima and sums, hidden layers, attention."""
        lead = self.pick(("", "..., "))
        rows, block = self.knob(4, 8, 16, 32), 32 * self.random.randint(1, 2)
        q = self.argument(f"{lead}M, K", (self.m, self.k))
        k = self.argument(f"{lead}N, K", (self.n, self.k))
        form = self.pick(("plain", "maximum", "attention", "hidden"))
        if form == "plain":
            self.declared.append(f"y=L.Out({lead}M, K)")
            self.grid(1, "i", f"{q}.rows({rows})")
            self.emit(2, f"s = L.state({self.pick(('0.0', '1.0', f'{q}[i]'))}, K)")
            self.emit(2, f"c = L.state({self.pick(('0.0', '-math.inf'))})")
            self.emit(2, f"for u in sweep({self.random.randint(0, 3)}):")
            self.emit(3, f"v = {self.anchored('s', [f'{q}[i]', 'c'], 2)}")
            self.emit(3, f"c <<= {self.pick(BINARY[:6]).format('c', 'L.row_max(v)')}")
            self.emit(3, f"s <<= {self.expression(['v', f'{q}[i]'], 2)}")
            self.emit(2, f"y[i] <<= {self.expression(['s', 'c', f'{q}[i]'], 3)}")
            return
        if form == "hidden":
            w = self.argument("E, N", (self.pick((1, 5, 24)), self.n))
            self.declared.append(f"y=L.Out({lead}M, E)")
            self.grid(1, "i", f"{q}.rows({rows})")
            self.emit(2, f"acc = L.tile({self.pick(('', 'precision=' + repr('left')))})")
            self.emit(2, f"for f in sweep({k}.rows({block})):")
            self.scores(3, q, k, "h", "f")
            right = self.side(f"{w}[0, f]", ["{}"] if self.chance(0.3) else [])
            self.emit(3, f"acc += {self.anchored('h', ['h'], 2)} @ {right}")
            self.emit(2, f"y[i] <<= {self.pick(('acc', 'L.relu(acc)', 'acc * 0.5'))}")
            return
        wide = form == "attention"
        causal = self.chance(0.25)
        if causal:  # as many keys as queries, in blocks of one size
            self.arrays[0] = self.values((*self.arrays[0].shape[:-2], self.n, self.k), "fp16")
            self.declared[0] = self.declared[0].replace("M, K", "N, K")
            rows = str(block)
        m, many = ("N", self.n) if causal else ("M", self.m)
        score = "s"
        if self.chance(0.3):
            score = f"(s + {self.argument(f'{lead}{m}, N', (many, self.n), self.format())}[i, j])"
        elif self.chance(0.3):
            score = f"(s * {self.argument(f'{lead}N', (self.n,))}[j])"
        v = self.argument(f"{lead}N, E", (self.n, self.pick((1, 8, 20)))) if wide else ""
        self.declared.append(f"y=L.Out({lead}{m}{', E' if wide else ''})")
        self.grid(1, "i", f"{q}.rows({rows})")
        self.emit(2, "top, total = L.state(-math.inf), L.state(0.0)")
        if wide:
            self.emit(2, "out = L.state(0.0, E)")
        count = self.pick(("i", "i + 1")) if causal else f"{k}.rows({block})"
        self.emit(2, f"for j in sweep({count}):")
        self.scores(3, q, k, "s", "j")
        if score != "s":
            self.emit(3, f"z = {score}")
            score = "z"
        if causal and self.n > 1 and self.chance(0.5):
            self.lines.insert(
                0, f"    tri = L.table(np.tril(np.ones(({block}, {block}), np.float16)))"
            )
            self.emit(3, f"w = L.where(tri, {score}, -math.inf)")
            score = "w"
        scale = self.pick(("0.5", "1", "K ** -0.5"))
        self.emit(3, f"m = L.maximum(top, L.row_max({score} * {scale}))")
        forms = (f"L.exp2({score} * 0.5 - m)", f"L.relu({score})", f"{score} * 0.25")
        self.emit(3, f"p = {self.pick(forms)}")
        if wide:
            self.emit(3, f"pv = L.tile({self.pick(('', 'precision=' + repr('high')))})")
            self.emit(3, f"pv += p @ {v}[j]")
            self.emit(3, "out <<= out * L.exp2(top - m) + pv")
        self.emit(
            3, f"total <<= {self.pick(('total + L.row_sum(p)', 'total * 0.5 + L.row_max(p)'))}"
        )
        self.emit(3, "top <<= m")
        self.emit(2, f"y[i] <<= {'out / total' if wide else 'total + top'}")

    def scores(self, depth: int, q: str, k: str, name: str, index: str) -> None:
        nk = self.knob(1, 2)
        right: list[str] = []
        if self.chance(0.3):
            right.append("{}")
            if self.chance(0.5):
                right.append(self.argument("N", (self.n,)) + f"[{index}]")
            if self.chance(0.3):
                right.append(self.argument("K", (self.k,)) + "[c]")
        self.emit(depth, f"{name} = L.tile()")
        self.emit(depth, f"for c in sweep({q}.chunks32({nk})):")
        right_side = self.side(f"{k}[{index}, c]", right)
        self.emit(depth + 1, f"{name} += {q}[i, c] @ {right_side}")

    # ------------------------------------------------------------------- result

    def source(self) -> Source:
        family = self.pick((self.parts, self.rows, self.rows, self.tiles, self.tiles, self.state))
        family()
        knobs = [f"{name}=None" for name in self.knobs]
        ins = [d for d in self.declared if "L.In(" in d]
        outs = [d for d in self.declared if "L.Out(" in d]
        signature = ", ".join([*ins, *outs, *(["*", *knobs] if knobs else [])])
        text = f"{HEAD}def fuzz({signature}):\n" + "\n".join(self.lines) + "\n"
        left_open = [name for name in self.knobs if self.chance(0.5)]
        return Source(text, self.arrays, self.knobs, left_open)


def generate(seed: int) -> Source:
    """Return the kernel of a seed."""
    return Generator(seed).source()
