"""Instructions that are wrong in one way: each condition of the records, each cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kohakuaccel.isa import Instruction
from kohakutpu import isa
from kohakutpu.config import QUARTERS_PER_WORD, Machine
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
from kohakutpu.conformance.suite.contexts import load_core, load_registers, load_tiles, load_words
from kohakutpu.isa import Extent, Source, Wait


def cases(machine: Machine) -> Iterator[Result]:
    """Yield the cases."""
    yield from _checks(machine)
    yield from _receivers(machine)
    yield from _memory(machine)
    yield from _overlaps(machine)


def forged(base: Instruction, **operands: Any) -> bytes:
    """Return the word of an instruction with operands that its record would refuse together."""
    word = int.from_bytes(isa.encode(base), "little")
    offset = base.record.form.opcode_width
    for operand in base.record.operands:
        width = operand.kind.width
        if operand.name in operands:
            bits = operand.kind.encode(operand.kind.check(operands[operand.name]))
            word = word & ~(((1 << width) - 1) << offset) | bits << offset
        offset += width
    return word.to_bytes(base.record.form.width // 8, "little")


_IMM = Source.imm(1.0)
_NONE = Source.none()
_L1 = Source("l1h")
_TILE: dict[str, Any] = {"order": "tile", "rows": 0, "cols": 0}
_L1A: dict[str, Any] = {"to": "node", "nodes": 1, "buffer": "l1a", "format": "fp16"}

BROKEN: tuple[tuple[str, Instruction, dict[str, Any]], ...] = (
    *(
        ("two semaphores", base, {"waits": (Wait(3, 1), Wait(3, 2))})
        for base in (fill(), gemm(), drain(), vfill(), execute(a=_IMM), vdrain())
    ),
    ("packed", fill(mode="packed"), {"stride": 1}),
    ("packed", fill(mode="packed"), {"rows": Extent(4, 0)}),
    ("packed", fill(mode="packed"), {"rows": Extent(0, 1)}),
    ("packed", fill(mode="packed"), {"k": Extent(32, 0)}),
    ("packed", fill(mode="packed"), {"k": Extent(0, 2)}),
    ("packed", fill(mode="packed"), {"transpose": True}),
    ("memory receiver", drain(), {"nodes": 1}),
    ("memory receiver", drain(format="fp16"), {"buffer": "l1a"}),
    ("some receiver", drain(to="node", nodes=2, buffer="vector"), {"nodes": 0}),
    ("residual receiver", drain(to="node", nodes=2, buffer="vector"), {"residual": True}),
    (
        "quantised format",
        drain(to="node", nodes=1, buffer="l1a", format="fp16"),
        {"format": "fp32"},
    ),
    (
        "quantised format",
        drain(to="node", nodes=1, buffer="l1b", format="fp16"),
        {"format": "fp32"},
    ),
    ("quantised order", drain(**_L1A), {"order": "tile"}),
    ("whole tiles", drain(**_TILE), {"rows": Extent(4, 0)}),
    ("whole tiles", drain(**_TILE), {"cols": Extent(4, 0)}),
    ("whole tiles", drain(**_TILE), {"cols": Extent(0, 1)}),
    ("first source", execute(a=_IMM), {"a": _NONE}),
    ("pair", execute(f="max", a=_IMM, b=_IMM), {"b": _NONE}),
    ("pair", execute(f="min", a=_IMM, b=_IMM), {"c": _IMM}),
    ("pair", execute(f="lt", a=_IMM, b=_IMM), {"c": _IMM}),
    ("pair", execute(f="le", a=_IMM, b=_IMM), {"b": _NONE}),
    ("pair", execute(f="eq", a=_IMM, b=_IMM), {"c": _IMM}),
    ("triple", execute(f="select", a=_IMM, b=_IMM, c=_IMM), {"b": _NONE}),
    ("triple", execute(f="select", a=_IMM, b=_IMM, c=_IMM), {"c": _NONE}),
    ("L1 ports", execute(a=_L1, b=_L1), {"c": Source("l1f")}),
    ("no reduction", execute(a=_IMM), {"red": isa.Address(0, 1)}),
    ("no reduction", execute(a=_IMM), {"red": isa.Address(1, 0)}),
    ("memory receiver", vdrain(), {"nodes": 2}),
    ("memory receiver", vdrain(), {"buffer": "l1b"}),
    ("some receiver", vdrain(to="node", nodes=2, buffer="vector"), {"nodes": 0}),
    ("residual receiver", vdrain(to="node", nodes=2, buffer="vector"), {"residual": True}),
    ("quantised format", vdrain(to="node", nodes=1, buffer="l1a"), {"format": "fp32"}),
    ("whole sub-tiles", vdrain(rows=4, order="tile"), {"rows": 5}),
    ("whole sub-tiles", vdrain(rows=4, order="tile"), {"cols": 6}),
)
"""A condition's name, an instruction that keeps it, and the operands that break it."""


def _checks(machine: Machine) -> Iterator[Result]:
    for number, (name, base, operands) in enumerate(BROKEN):
        kind = "C" if base.record in isa.records("C") else "V"
        draft = Draft(machine, f"check/{base.name}/{name.replace(' ', '-')}/{number}")
        word = forged(base, **operands)
        draft.program(machine.of_kind(kind)[0].id).code.append(word)
        yield draft.finish()


def _receivers(machine: Machine) -> Iterator[Result]:
    """Name nodes that have no such buffer, or are no units, beside some that have it."""
    cluster, core = machine.of_kind("C")[0].id, machine.of_kind("V")[0].id
    bases = (
        ("C", fill(), "C"),
        ("C", drain(to="node", nodes=1 << core, buffer="vector"), "V"),
        ("C", drain(to="node", nodes=1 << cluster, buffer="l1a", format="fp16"), "C"),
        ("C", drain(to="node", nodes=1 << cluster, buffer="l1b", format="fp16"), "C"),
        ("V", vfill(), "V"),
        ("V", vdrain(to="node", nodes=1 << core, buffer="vector"), "V"),
        ("V", vdrain(to="node", nodes=1 << cluster, buffer="l1b"), "C"),
    )
    for kind, base, receivers in bases:
        right = {n.id for n in machine.nodes if n.kind == receivers}
        for wrong in sorted(set(range(16)) - right):
            for others in (0, 1 << min(right)):
                label = f"{wrong}+{min(right)}" if others else str(wrong)
                buffer = getattr(base, "buffer", receivers)
                draft = Draft(machine, f"fault/ILLEGAL/{base.name}-{buffer}/{label}")
                code = base.replace(nodes=others | 1 << wrong)
                draft.program(machine.of_kind(kind)[0].id).code.append(code)
                yield draft.finish()


def _memory(machine: Machine) -> Iterator[Result]:
    """Yield addresses past memory, wholly and by one word, and those not of a word."""
    cluster, core = machine.of_kind("C")[0].id, machine.of_kind("V")[0].id
    end = machine.dram_words * QUARTERS_PER_WORD

    def case(name: str, node: int, code: Instruction) -> Result:
        draft = Draft(machine, f"fault/{name}")
        if code.name == "DRAIN":
            load_tiles(draft, node)
        elif code.name == "VDRAIN":
            load_core(draft, node)
        assert code.engine is not None, code
        return draft.examine(node, [code], code.engine)

    largest = (1 << 34) - QUARTERS_PER_WORD
    places = [("end", end), ("row", end - QUARTERS_PER_WORD), ("largest", largest)]
    for name, mem in places:
        if mem >= 1 << 34:
            continue
        far: dict[str, Any] = {"mem": mem, "stride": 1}
        yield case(f"MEMORY/FILL-{name}", cluster, fill(g=2, rows=2, **far))
        yield case(f"MEMORY/FILL-k-{name}", cluster, fill(nk=2, rows=1, k=33, **far))
        columns = fill(transpose=True, rows=1, k=3, **far)
        yield case(f"MEMORY/FILL-columns-{name}", cluster, columns)
        yield case(f"MEMORY/FILL-packed-{name}", cluster, fill(mode="packed", mem=mem))
        yield case(f"MEMORY/VFILL-{name}", core, vfill(rows=2, **far))
        if name != "row":  # what comes before the end would be written, and is nobody's
            yield case(f"MEMORY/DRAIN-{name}", cluster, drain(**far))
            tile = drain(order="tile", format="fp16", **far)
            yield case(f"MEMORY/DRAIN-sub-tile-{name}", cluster, tile)
            yield case(f"MEMORY/VDRAIN-{name}", core, vdrain(**far))
    # No request, no fault.
    yield case("none/FILL-rows", cluster, fill(g=2, rows=0, mem=end, stride=1))
    yield case("none/FILL-k", cluster, fill(g=2, k=0, mem=end, stride=1))
    yield case("none/FILL-first", cluster, fill(g=2, rows=0, mem=largest))
    yield case("none/VFILL-rows", core, vfill(rows=3, row_extent=0, mem=end + 1))
    yield case("none/VFILL-cols", core, vfill(rows=3, col_extent=0, mem=end + 3))
    yield case("none/DRAIN-rows", cluster, drain(rows=0, mem=end + 1))
    yield case("none/DRAIN-cols", cluster, drain(cols=0, mem=end))
    yield case("none/VDRAIN-rows", core, vdrain(row_extent=0, mem=end + 1))
    for off in (1, 2, 3):
        yield case(f"MISALIGNED/FILL-{off}", cluster, fill(mem=off, rows=1, k=1))
        yield case(f"MISALIGNED/FILL-packed-{off}", cluster, fill(mem=off, mode="packed"))
        whole = drain(mem=off, order="tile", format="fp16")
        yield case(f"MISALIGNED/DRAIN-{off}", cluster, whole)


def _overlaps(machine: Machine) -> Iterator[Result]:
    """Yield windows of EXEC that share a cell, next to others that only interleave."""
    node = machine.of_kind("V")[0].id
    lanes = machine.lanes
    beats = -(-20 // lanes)
    layouts: dict[str, dict[str, Any]] = {
        "first-word": {"a": source("l1h", 10, 2), "dst": destination("l1h", 11, 2)},
        "same": {"a": source("l1h", 10, 2), "dst": destination("l1h", 10, 2)},
        "other-stride": {"a": source("l1h", 10, 2), "dst": destination("l1h", 10, 3)},
        "other-format": {"a": source("l1h", 10, 3), "dst": destination("l1f", 10, 3)},
        "other-base": {"a": source("l1h", 10, 4), "dst": destination("l1h", 14, 4)},
        "interleaved": {"a": source("l1h", 10, 4), "dst": destination("l1h", 12, 4)},
        "interleaved-behind": {"a": source("l1h", 12, 4), "dst": destination("l1h", 10, 4)},
        "inside-a-gap": {"a": source("l1h", 10, 20), "dst": destination("l1h", 13, 3)},
        "touching": {"a": source("l1h", 10, 2), "dst": destination("l1h", 16, 2)},
        "last-word": {"a": source("l1h", 10, 2), "dst": destination("l1h", 15, 2)},
        "before": {"a": source("l1h", 10, 2), "dst": destination("l1h", 4, 2)},
        "before-by-one": {"a": source("l1h", 10, 2), "dst": destination("l1h", 5, 2)},
        "repeated-source": {"a": source("l1h", 10), "dst": destination("l1h", 10, 2)},
        "repeated-apart": {"a": source("l1h", 10), "dst": destination("l1h", 12, 2)},
        "rows-overlap": {"a": source("l1h", 10, 2), "dst": destination("l1h", 30, 1)},
        "rows-repeat": {"a": source("l1h", 10, 2), "dst": destination("l1h", 30, 0)},
        "crossing": {"a": source("l1h", 10, 5), "dst": destination("l1h", 12, 7)},
        "crossing-hit": {"a": source("l1h", 10, 5), "dst": destination("l1h", 12, 4)},
        "registers-same": {"a": source("reg", 5, beats), "dst": destination("reg", 5, beats)},
        "registers-hit": {"a": source("reg", 5, beats), "dst": destination("reg", 6, beats)},
        "registers-interleaved": {
            "a": source("reg", 0, 2 * beats),
            "dst": destination("reg", beats, 2 * beats),
        },
        "registers-rows": {"a": source("reg", 0, beats), "dst": destination("reg", 30, beats - 1)},
        "row-in-dst": {"a": source("row", 31), "dst": destination("reg", 30, beats)},
        "third-source": {
            "a": source("l1h", 10, 2),
            "b": source("reg", 0, beats),
            "c": source("l1f", 40, 3),
            "dst": destination("l1f", 42, 3),
        },
        "second-source-same": {
            "a": source("l1h", 10, 2),
            "b": source("l1f", 40, 3),
            "dst": destination("l1f", 40, 3),
        },
        "two-sources-same": {
            "a": source("l1h", 10, 2),
            "b": source("l1h", 10, 2),
            "dst": destination("l1h", 10, 2),
        },
        "other-storage": {"a": source("l1h", 10, 2), "dst": destination("reg", 10, beats)},
        "red-same": {"a": source("row", 20), "reduce": "sum", "red": 20},
        "red-other-row": {"a": source("row", 20), "reduce": "sum", "red": 21},
        "red-in-source": {"a": source("reg", 5, beats), "reduce": "max", "red": 6},
        "red-in-dst": {
            "a": source("l1h", 10, 2),
            "dst": destination("reg", 30, beats),
            "reduce": "min",
            "red": 30 + beats,
        },
        "red-beside-dst": {
            "a": source("l1h", 10, 2),
            "dst": destination("reg", 30, beats),
            "reduce": "min",
            "red": 29,
        },
        "red-in-gap": {
            "a": source("l1h", 10, 2),
            "dst": destination("reg", 10, beats + 1),
            "reduce": "sum",
            "red": 10 + beats,
        },
        "one-row-other-stride": {
            "rows": 1,
            "a": source("l1h", 10, 2),
            "dst": destination("l1h", 10, 3),
        },
        "one-row-stride-0": {"rows": 1, "a": source("l1h", 10, 2), "dst": destination("l1h", 30)},
    }
    for name, layout in layouts.items():
        draft = Draft(machine, f"overlap/{name}")
        load_core(draft, node)
        load_registers(draft, node)
        yield draft.examine(node, [execute(**{"rows": 3, "cols": 20, **layout})], 1)
    for rows in (lanes, lanes + 1, 2 * lanes):
        draft = Draft(machine, f"overlap/red-rows-{rows}")
        load_words(draft, node, samples.fp16_bytes("overlap", 16 * 90))
        load_registers(draft, node)
        code = execute(rows=rows, cols=5, a=source("l1h", 0, 1), reduce="sum", red=2)
        same = execute(rows=rows, cols=5, a=source("row", 2), reduce="max", red=2)
        yield draft.examine(node, [code, same], 1)
