"""Every pair of choices an engine instruction has, on windows of random sizes and contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kohakuaccel.isa import Instruction, Record
from kohakutpu.config import Machine
from kohakutpu.conformance import pairs
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
from kohakutpu.isa import (
    DRAIN,
    EXEC,
    FILL,
    GEMM,
    SETA,
    VDRAIN,
    VFILL,
    Extent,
    Flag,
    Source,
)

Choice = dict[str, Any]
Maker = Callable[[Draft, int, Choice], Instruction]
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20, 31, 32, 33, 40)


def cases(machine: Machine) -> Iterator[Result]:
    """Yield a case for each choice of a covering set of each record."""
    makers: dict[Record, Maker] = {
        FILL: _fill,
        GEMM: _gemm,
        DRAIN: _drain,
        VFILL: _vfill,
        EXEC: _exec,
        VDRAIN: _vdrain,
    }
    for record, maker in makers.items():
        kind = "C" if record in (FILL, GEMM, DRAIN) else "V"
        node = machine.of_kind(kind)[0].id
        for number, choice in enumerate(pairs.covering(record)[0]):
            for turn in range(4 if record in (GEMM, VFILL) else 1):
                draft = Draft(machine, f"pairs/{record.name}/{number + 100 * turn:03}")
                instruction = maker(draft, node, choice)
                assert instruction.engine is not None, instruction
                yield draft.examine(node, [instruction], instruction.engine)


def _extent(draft: Draft, node: int, size: int) -> Extent:
    """Return an extent up to a bit more than a size, with a register half of the time."""
    limit = draft.random.choice((0, 1, size // 2, size - 1, size, size + 3))
    if draft.random.random() < 0.5:
        return Extent(max(limit, 0), 0)
    register = draft.random.randrange(1, 16)
    shift = draft.random.choice((-3, 0, 2, 100))
    draft.program(node).code.append(SETA(rd=register, imm=shift))
    return Extent(max(limit + shift, 0), register)


def _fill(draft: Draft, node: int, choice: Choice) -> Instruction:
    chance = draft.random
    g, nk = chance.randrange(1, 4), chance.randrange(1, 4)
    window: dict[str, Any] = {"g": g, "nk": nk, "l1": chance.randrange(1, 5)}
    window["l1_stride"] = nk + chance.randrange(3)
    for buffer in "AB":
        load_entries(draft, node, buffer)
    if choice["mode"] == "packed":
        place = draft.data(samples.packed(draft.name, g * nk, samples.WILD))
    else:
        rows, k = 4 * g, 32 * nk
        tall, wide = (k, rows) if choice["transpose"] else (rows, k)
        window["stride"] = -(-wide // 16) + chance.randrange(2)
        place = draft.data(samples.fp16_bytes(draft.name, 16 * window["stride"] * tall, 0.05))
        window |= {"rows": _extent(draft, node, rows), "k": _extent(draft, node, k)}
    return fill(mem=place, **window | choice)


def _gemm(draft: Draft, node: int, choice: Choice) -> Instruction:
    chance = draft.random
    for buffer in "AB":
        load_entries(draft, node, buffer, scales=samples.WILD)
    draft.program(node).chain(gemm(gm=6, gn=6))
    register = chance.randrange(1, 16)
    draft.program(node).code.append(SETA(rd=register, imm=chance.choice((0, 1, 1 << 33))))
    flags = {"off": Flag(False, 0), "on": Flag(True, 0), "register": Flag(False, register)}
    return gemm(
        a=chance.randrange(4),
        b=chance.randrange(4),
        acc=chance.randrange(4),
        gm=chance.randrange(1, 5),
        gn=chance.randrange(1, 5),
        nk=chance.randrange(1, 6),
        a_stride=chance.randrange(8),
        b_stride=chance.randrange(8),
        accumulate=flags[choice["accumulate"]],
    )


def _target(draft: Draft, node: int, choice: Choice, words: int) -> Choice:
    """Return where a drain goes: `mem` and `nodes`, with everything there in a known state."""
    if choice["to"] == "memory":
        aligned = choice.get("order") == "tile"
        return {"mem": draft.output(words + 1) + (4 if aligned else draft.random.randrange(5))}
    kind = "V" if choice["buffer"] == "vector" else "C"
    receivers = [n.id for n in draft.machine.of_kind(kind)]
    to = draft.random.choice(receivers)
    if kind == "C":
        load_entries(draft, to, "A" if choice["buffer"] == "l1a" else "B", 80)
        return {"mem": draft.random.randrange(4), "nodes": 1 << to}
    pattern = samples.fp16_bytes("target", 16 * 250, 0.0)
    load_words(draft, to, pattern, first=200)
    return {"mem": 210 + draft.random.randrange(4), "nodes": 1 << to}


def _drain(draft: Draft, node: int, choice: Choice) -> Instruction:
    chance = draft.random
    gm, gn = chance.randrange(1, 5), chance.randrange(1, 6)
    size = 2 if choice["format"] == "fp16" else 4
    row = -(-4 * gn * size // 32)
    window: Choice = {"gm": gm, "gn": gn, "acc": chance.randrange(8)}
    load_tiles(draft, node, samples.WILD)
    tiles = choice["order"] == "tile"
    window["stride"] = (gn * size // 2 if tiles else row) + chance.randrange(3)
    height = gm if tiles else 4 * gm
    window |= _target(draft, node, choice, (height + 1) * window["stride"] + row)
    if not tiles or choice["to"] == "node":
        window |= {"rows": _extent(draft, node, 4 * gm), "cols": _extent(draft, node, 4 * gn)}
    return drain(**window | choice)


def _vfill(draft: Draft, node: int, choice: Choice) -> Instruction:
    chance = draft.random
    rows, cols = chance.randrange(1, 7), chance.choice(WIDTHS)
    words = -(-cols * (2 if choice["format"] == "fp16" else 4) // 32)
    stride = chance.choice((0, words, words + 1))
    content = samples.fp16_bytes(draft.name, 16 * ((rows + 1) * (stride + 1) + words), 0.3)
    place = draft.data(content) + chance.randrange(5)
    load_words(draft, node, samples.fp16_bytes("core", 16 * 120, 0.0))
    return vfill(
        mem=place,
        stride=stride,
        l1=chance.randrange(5, 9),
        l1_stride=words + chance.randrange(3),
        rows=rows,
        cols=cols,
        row_extent=_extent(draft, node, rows),
        col_extent=_extent(draft, node, cols),
        **choice,
    )


def _exec(draft: Draft, node: int, choice: Choice) -> Instruction:
    chance = draft.random
    lanes = draft.machine.lanes
    rows, cols = chance.randrange(1, 6), chance.choice(WIDTHS)
    content = samples.as_fp32(samples.fp32(chance, 8 * 30, 0.2))
    load_words(draft, node, content + samples.as_fp16(samples.fp16(chance, 16 * 30, 0.2)))
    registers = execute(
        cols=48 * lanes if lanes == 4 else 240, a=source("l1f"), dst=destination("reg")
    )
    draft.program(node).chain(registers)
    lengths = {"l1h": -(-cols // 16), "l1f": -(-cols // 8), "reg": -(-cols // lanes)}
    limits = {"l1h": 60, "l1f": 30, "reg": 240 // lanes if lanes > 4 else 48}

    def window(kind: str) -> tuple[int, int]:
        """Return base and stride of a source window on known data."""
        length = lengths[kind]
        stride = chance.choice((0, length, length + 1))
        if (rows - 1) * stride + length > limits[kind]:
            stride = 0
        return chance.randrange(limits[kind] - (rows - 1) * stride - length + 1), stride

    operands: Choice = {}
    for name in "abc":
        kind = choice[name]
        if kind == "imm":
            operands[name] = Source.imm_bits(samples.fp32(chance, 1, 0.5)[0])
        elif kind == "row":
            operands[name] = source("row", chance.randrange(8))
        elif kind == "none":
            operands[name] = Source.none()
        else:
            operands[name] = source(kind, *window(kind))
    kind = choice["dst"]
    operands["dst"] = destination("none")
    if kind != "none":
        stride = lengths[kind] + chance.randrange(3)
        operands["dst"] = destination(kind, 52 if kind == "reg" else 80, stride)
        if kind == "reg" and (rows - 1) * stride + lengths[kind] + 52 > draft.machine.registers:
            operands["dst"] = destination(kind, 52, lengths[kind])
    if choice["reduce"] != "none":
        operands["red"] = 49
    plain = {name: choice[name] for name in ("f", "unary", "reduce")}
    return execute(rows=rows, cols=cols, **plain, **operands)


def _vdrain(draft: Draft, node: int, choice: Choice) -> Instruction:
    chance = draft.random
    rows, cols = chance.randrange(1, 9), chance.choice(WIDTHS)
    size = 2 if choice["format"] == "fp16" else 4
    tiles = choice["order"] == "tile"
    if tiles:
        rows, cols = 4 * chance.randrange(1, 4), 4 * chance.randrange(1, 7)
    length = -(-cols * size // 32)
    window: Choice = {"rows": rows, "cols": cols, "l1": chance.randrange(4)}
    window["l1_stride"] = (cols // 4 * size // 2 if tiles else length) + chance.randrange(3)
    content = samples.fp16_bytes("drained", 16 * 180, 0.1 if choice["buffer"] == "vector" else 0.01)
    load_words(draft, node, content)
    window["stride"] = length + chance.randrange(3)
    words = (rows + 1) * window["stride"] + length
    target = _target(draft, node, {**choice, "order": "row"}, words)
    extents = {"row_extent": _extent(draft, node, rows), "col_extent": _extent(draft, node, cols)}
    return vdrain(**window | target | extents | choice)
