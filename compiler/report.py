"""A plan as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.plan import Plan, StagePlan, UnitPlan, placements

UNITS = {
    "L1A": "entries",
    "L1B": "entries",
    "accumulator": "sub-tiles",
    "L1": "words",
    "registers": "beats",
}
KINDS = {"C": "cluster", "V": "vector core"}
RIGHT = frozenset("0123456789.,%x ")


def show(plan: Plan) -> str:
    """Return everything a plan says."""
    sizes = ", ".join(f"{name} = {value}" for name, value in plan.sizes.items())
    lines = [f"plan of {plan.kernel} on {plan.machine}" + (f": {sizes}" if sizes else "")]
    for stage in plan.stages:
        lines += ["", *_stage(stage)]
    lines += ["", "buffers"]
    lines += table(
        ("name", "role", "shape", "dtype", "bytes"),
        [(b.name, b.role, _shape(b.shape), b.dtype, f"{b.nbytes:,}") for b in plan.buffers],
    )
    lines += ["", "relayouts: " + ("; ".join(plan.relayouts) or "none")]
    programs = (f"unit {node} {length}" for node, length in plan.programs.items())
    lines.append("program words: " + (", ".join(programs) or "none"))
    lines.append(
        f"moved: {plan.words_read:,} words read, {plan.words_written:,} written, "
        f"{plan.words_sent:,} from unit to unit"
    )
    lines.append(f"estimate: {plan.cycles:,} cycles")
    return "\n".join(lines)


def _stage(stage: StagePlan) -> list[str]:
    times = f", {stage.rounds} times" if stage.rounds != 1 else ""
    batch = f", batch {_shape(stage.batch)}" if stage.batch else ""
    number = f"{stage.instances:,} instance{'s' * (stage.instances != 1)}"
    lines = [
        f"stage {stage.number}: {stage.kind} at {stage.loc}, {number}{batch}{times}",
        f"  limited by {stage.limiter}: about {stage.cycles:,} cycles",
    ]
    rows: list[tuple[str, ...]] = []
    for unit in stage.units:
        for engine, load in unit.loads.items():
            if load.instructions:
                busy = 100 * load.cycles // max(1, stage.cycles)
                moved = (load.read, load.written, load.sent)
                rows.append(
                    (
                        _name(unit),
                        engine,
                        f"{load.instructions:,}",
                        f"{load.cycles:,}",
                        f"{busy}%",
                        *(f"{words:,}" for words in moved),
                    )
                )
    head = ("unit", "engine", "instructions", "busy cycles", "busy", "read", "written", "sent")
    lines += ["  " + line for line in table(head, rows)]
    for kind in dict.fromkeys(unit.share.kind for unit in stage.units):
        shares = [unit for unit in stage.units if unit.share.kind == kind]
        lines.append(f"  {_shares(shares)}")
    for (kind, memory), windows in placements(stage).items():
        used = sum(window.size * window.slots for window in windows)
        parts = ", ".join(
            f"{window.name} ({window.role}) {window.slots} x {window.size:,}" for window in windows
        )
        lines.append(f"  {KINDS[kind]} {memory}: {parts}; {used:,} {UNITS[memory]}")
    lines += [f"  fetched once: {_common(unit)}" for unit in stage.units if unit.share.common]
    for note in dict.fromkeys(note for unit in stage.units for note in unit.share.notes):
        lines.append(f"  note: {note}")
    return lines


def _shares(units: Sequence[UnitPlan]) -> str:
    first = units[0].share
    if not first.axis:
        return f"{_name(units[0])} has the only instance"
    ranges = ", ".join(
        f"{_name(unit)} {unit.share.start}..{unit.share.start + unit.share.length - 1}"
        for unit in units
    )
    return f"{first.axis} split: {ranges}"


def _common(unit: UnitPlan) -> str:
    receivers = ", ".join(f"{unit.share.kind}{node}" for node in unit.share.receivers)
    return f"{', '.join(unit.share.common)}, by {_name(unit)} for {receivers}"


def _name(unit: UnitPlan) -> str:
    return f"{unit.share.kind}{unit.share.node}"


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows under a head, columns aligned: numbers to the right, words to the left."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [bool(column[1:]) and all(set(c) <= RIGHT for c in column[1:]) for column in columns]
    lines: list[str] = []
    for row in (head, *rows):
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return lines
