"""Windows as large as they may be, ending with the last cell of a storage, and one cell more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kohakuaccel.isa import Instruction
from kohakutpu.config import ADDRESS_BITS, WORD_BYTES, Machine
from kohakutpu.conformance.draft import Draft
from kohakutpu.conformance.shorthand import (
    destination,
    drain,
    execute,
    fill,
    gemm,
    source,
    vdrain,
    vfill,
)
from kohakutpu.conformance.suite import samples
from kohakutpu.conformance.suite.boundaries import Result
from kohakutpu.conformance.suite.contexts import load_entries, load_tiles, load_words
from kohakutpu.isa import SETA, Address

FAR = (1 << 24) - 1  # words, the largest stride
LARGEST = 1023
ROWS = 4095


def cases(machine: Machine) -> Iterator[Result]:
    """Yield the cases."""
    for past in (0, 1):
        yield from _cluster(machine, past)
        yield from _core(machine, past)
    yield from _far(machine)
    yield from _wrapped(machine)


def _cluster(machine: Machine, past: int) -> Iterator[Result]:
    """Yield windows that end `past` cells behind the last one of L1 and accumulator."""
    node = machine.of_kind("C")[0].id
    name = "past" if past else "last"
    l1, acc = machine.l1_entries, machine.acc_subtiles

    def entries(draft: Draft, **operands: Any) -> Instruction:
        place = draft.data(samples.fp16_bytes("sizes", 64))
        return fill("A", mem=place, rows=3, k=60, stride=0, **operands)

    for what, size in (("g", min(LARGEST, l1)), ("nk", min(LARGEST, l1))):
        draft = Draft(machine, f"size/FILL.{what}/{name}")
        code = entries(draft, l1=l1 - size + past, **{what: size})
        yield draft.examine(node, [code], 0)
    tiles = min(LARGEST, acc)
    for what, operands in (
        ("gm", {"gm": tiles, "a_stride": 0, "acc": acc - tiles + past}),
        ("gn", {"gn": tiles, "b_stride": 0, "acc": acc - tiles + past}),
        ("nk-a", {"nk": 2, "a": l1 - 2 + past}),
        ("nk-b", {"nk": 2, "b": l1 - 2 + past}),
        ("a-stride", {"gm": 2, "a_stride": l1 - 1 + past}),
        ("b-stride", {"gn": 2, "b_stride": l1 - 1 + past}),
    ):
        draft = Draft(machine, f"size/GEMM.{what}/{name}")
        for buffer in "AB":
            load_entries(draft, node, buffer, 2)
            place = draft.data(samples.packed("sizes", 2, samples.MILD))
            last = fill(buffer, mem=place, l1=l1 - 2, g=2, mode="packed")
            draft.program(node).chain(last)
        yield draft.examine(node, [gemm(**operands)], 1)
    for what, window in (("gm", {"gm": tiles}), ("gn", {"gn": tiles})):
        draft = Draft(machine, f"size/DRAIN.{what}/{name}")
        output = draft.output(tiles)
        load_tiles(draft, node)
        draft.program(node).chain(gemm(gn=tiles, b_stride=0, acc=acc - tiles))
        code = drain(
            acc=acc - tiles + past,
            mem=output,
            format="fp16",
            order="tile",
            stride=1 if what == "gm" else 0,
            **window,
        )
        yield draft.examine(node, [code], 2)


def _core(machine: Machine, past: int) -> Iterator[Result]:
    """Yield windows that end `past` cells behind the last one of L1 and registers."""
    node = machine.of_kind("V")[0].id
    name = "past" if past else "last"
    words, beats = machine.vl1_words, machine.registers
    rows = min(ROWS, words)
    wide = min(65535, 16 * words)
    numbers = samples.fp16_bytes("sizes", 64)
    for what, window in (
        ("rows", {"rows": rows, "stride": 0, "l1": words - rows + past}),
        ("cols", {"cols": wide, "col_extent": 40, "l1": words - -(-wide // 16) + past}),
    ):
        draft = Draft(machine, f"size/VFILL.{what}/{name}")
        yield draft.examine(node, [vfill(mem=draft.data(numbers), **window)], 0)
    for what, window in (
        ("rows", {"rows": ROWS, "l1_stride": 0, "row_extent": 3, "l1": words - 1 + past}),
        ("cols", {"cols": wide, "col_extent": 40, "l1": words - -(-wide // 16) + past}),
    ):
        draft = Draft(machine, f"size/VDRAIN.{what}/{name}")
        output = draft.output(4)
        first = words - 1 if what == "rows" else words - -(-wide // 16)
        load_words(draft, node, numbers[: WORD_BYTES * min(4, words - first)], first)
        yield draft.examine(node, [vdrain(mem=output, **window)], 2)
    lanes = machine.lanes
    scalars = min(ROWS, beats * lanes)
    cols = min(16383, beats * lanes)
    for what, window in (
        ("red", {"rows": scalars, "reduce": "max", "red": beats - -(-scalars // lanes) + past}),
        ("reg", {"cols": cols, "dst": destination("reg", beats - -(-cols // lanes) + past)}),
        ("l1h", {"rows": 2, "dst": destination("l1h", 2, words - 3 + past)}),
        ("l1f", {"rows": 2, "dst": destination("l1f", 2, words - 3 + past)}),
    ):
        draft = Draft(machine, f"size/EXEC.{what}/{name}")
        content = samples.fp16_bytes("wide", 16384)[: 2 * cols] if what == "reg" else numbers
        load_words(draft, node, content)
        yield draft.examine(node, [execute(a=source("l1h", 0, 0), **window)], 1)
    for kind in ("l1h", "l1f", "reg", "row"):
        draft = Draft(machine, f"size/EXEC.{kind}-source/{name}")
        load_words(draft, node, numbers[: 2 * WORD_BYTES], words - 2)
        copy = execute(cols=lanes, a=source("l1h", words - 2), dst=destination("reg", beats - 1))
        draft.program(node).chain(copy)
        last = words - 1 if kind in ("l1h", "l1f") else beats - 1
        rows = lanes if kind == "row" else 1
        window = source(kind, last + past)
        code = execute(rows=rows, cols=3, a=window, dst=destination("l1f", 0, 1))
        yield draft.examine(node, [code], 1)
    if not past:
        draft = Draft(machine, "size/EXEC.cols/largest")
        load_words(draft, node, numbers)
        load_words(draft, node, samples.fp16_bytes("wide", 16384))
        wide = execute(cols=16383, a=source("l1h"), reduce="max", red=1)
        yield draft.examine(node, [wide], 1)
        draft = Draft(machine, "size/EXEC.rows/largest")
        load_words(draft, node, numbers)
        tall = execute(rows=ROWS, cols=2, a=source("l1h"), dst=destination("none"))
        yield draft.examine(node, [tall], 1)


def _far(machine: Machine) -> Iterator[Result]:
    """Yield rows that lie as far apart as a stride can say, where memory is large enough."""
    if machine.dram_words <= FAR + 16:
        return
    at = FAR * WORD_BYTES
    row = samples.fp16_bytes("far", 32)
    for record in ("FILL", "VFILL", "DRAIN", "VDRAIN", "DRAIN.sub-tiles"):
        draft = Draft(machine, f"size/{record}/stride")
        engine = 2 if "DRAIN" in record else 0
        near = draft.data(row) if engine == 0 else draft.output(2)
        if engine == 0:
            draft.data(row[::-1], at)
        else:
            draft.output(2, at)
        kind = "V" if record.startswith("V") else "C"
        node = machine.of_kind(kind)[0].id
        match record:
            case "FILL":
                code = fill("A", mem=near, stride=FAR, rows=2)
            case "VFILL":
                code = vfill(mem=near, stride=FAR, rows=2, l1_stride=2, cols=32)
            case "VDRAIN":
                load_words(draft, node, samples.fp16_bytes("far", 64))
                code = vdrain(mem=near, stride=FAR, rows=2, cols=16)
            case "DRAIN":
                load_tiles(draft, node)
                code = drain(mem=near, stride=FAR, rows=2)
            case _:
                load_tiles(draft, node)
                code = drain(mem=near, stride=FAR, gm=2, order="tile", format="fp16")
        yield draft.examine(node, [code], engine)


def _wrapped(machine: Machine) -> Iterator[Result]:
    """Yield addresses that are right modulo 2**34 alone: the largest number, and a register."""
    largest = (1 << ADDRESS_BITS) - 1
    for record in ("FILL", "VFILL", "DRAIN", "VDRAIN"):
        draft = Draft(machine, f"size/{record}/wrap")
        engine = 2 if "DRAIN" in record else 0
        place = draft.output(20) if engine else draft.data(samples.fp16_bytes("far", 64))
        kind = "V" if record.startswith("V") else "C"
        node = machine.of_kind(kind)[0].id
        mem = Address(7, largest)
        match record:
            case "FILL":
                code = fill("A", mem=mem)
            case "VFILL":
                code = vfill(mem=mem)
            case "VDRAIN":
                load_words(draft, node, samples.fp16_bytes("far", 64))
                code = vdrain(mem=mem)
            case _:
                load_tiles(draft, node)
                code = drain(mem=mem)
        draft.program(node).code.append(SETA(rd=7, imm=place + 4 + 1))
        yield draft.examine(node, [code], engine)
