"""What of the instruction set a run of the suite has looked at, and what it has not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kohakuaccel.isa import Enumeration, IllegalInstruction, Record, Unfit
from kohakutpu import isa
from kohakutpu.conformance import pairs
from kohakutpu.conformance.case import Case, Trace
from kohakutpu.conformance.points import fields
from kohakutpu.conformance.reference import CAUSES

OPCODE_MASK = 0xFF


@dataclass
class Tally:
    """Points of one sort: all there are, and those that were met.

    Attributes
    ----------
    title : str
        What they are, for people.
    required : float
        The share that has to be met.
    """

    title: str
    required: float
    points: set[str] = field(default_factory=set[str])
    met: set[str] = field(default_factory=set[str])

    @property
    def share(self) -> float:
        """The share that was met."""
        return len(self.points & self.met) / len(self.points)

    @property
    def holes(self) -> list[str]:
        """What was not met, sorted."""
        return sorted(self.points - self.met)

    @property
    def enough(self) -> bool:
        """Whether as much was met as has to be."""
        return self.share >= self.required


def measure(traces: Iterable[tuple[Case, Trace]]) -> list[Tally]:
    """Return the coverage of cases.

    Parameters
    ----------
    traces : iterable of (Case, Trace)
        The cases, with what each made the reference look at.

    Returns
    -------
    list of Tally
        Instructions, enum values, field boundaries, pairs of choices, conditions, causes.
    """
    words: dict[str, set[bytes]] = {"C": set(), "V": set()}
    causes = Tally("fault causes, by kind of unit", 1.0)
    causes.points = {f"{kind} {cause}" for kind in "CV" for cause in CAUSES} - IMPOSSIBLE
    for case, trace in traces:
        for kind, found in trace.words.items():
            words[kind] |= found
        if case.stop is not None and len(case.stop.causes) == 1:
            kinds = {unit.node: unit.kind for unit in case.image.units}
            if case.stop.unit in kinds:
                causes.met.add(f"{kinds[case.stop.unit]} {case.stop.causes[0]}")
    return [*_of_words(words), causes]


IMPOSSIBLE = {
    "C REG_RANGE",  # a cluster has no register file, and no windows that can overlap
    "C OVERLAP",
    "V ACC_RANGE",  # a vector core has no accumulator, and takes any quarter of memory
    "V MISALIGNED",
}
"""Causes that a kind of unit does not have."""


def _of_words(words: Mapping[str, set[bytes]]) -> list[Tally]:
    executed = Tally("instructions, by kind of unit", 1.0)
    values = Tally("enum values", 1.0)
    boundaries = Tally("field boundaries", 0.95)
    couples = Tally("pairs of choices", 1.0)
    conditions = Tally("conditions between operands, broken", 1.0)
    for kind in "CV":
        by_opcode: dict[int, list[int]] = {}
        for word in words[kind]:
            number = int.from_bytes(word, "little")
            by_opcode.setdefault(number & OPCODE_MASK, []).append(number)
        for record in isa.records(kind):
            found = by_opcode.get(record.opcode, [])
            name = f"{kind} {record.name}"
            legal = [i for number in found if (i := _decoded(kind, number)) is not None]
            executed.points.add(name)
            if legal:
                executed.met.add(name)
            _count_fields(name, record, found, values, boundaries)
            if record in isa.records("C") and record in isa.records("V"):
                continue
            every = pairs.covering(record)[1]
            couples.points |= {_pair(record, pair) for pair in every}
            for instruction in legal:
                met = pairs.pairs_of(pairs.made(instruction)) & every
                couples.met |= {_pair(record, pair) for pair in met}
            for check in record.checks:
                conditions.points.add(f"{record.name} {check.name}")
            for number in found:
                broken = _broken(record, number)
                if len(broken) == 1:
                    conditions.met.add(f"{record.name} {broken[0]}")
    return [executed, values, boundaries, couples, conditions]


def _count_fields(
    name: str, record: Record, found: list[int], values: Tally, boundaries: Tally
) -> None:
    enumerated = {operand.name for operand in record.own if isinstance(operand.kind, Enumeration)}
    for part in fields(record):
        for value in part.values:
            point = f"{name} {part.label(value)}"
            tally = values if part.path in enumerated or part.path.endswith(".kind") else boundaries
            tally.points.add(point)
            if any(part.covered(number, value) for number in found):
                tally.met.add(point)


def _pair(record: Record, pair: pairs.Pair) -> str:
    return f"{record.name} " + " ".join(f"{name}={value}" for name, value in pair)


def _decoded(kind: str, number: int) -> isa.Instruction | None:
    try:
        return isa.decode(kind, number.to_bytes(32, "little"))
    except IllegalInstruction:
        return None


def _broken(record: Record, number: int) -> list[str]:
    """Return the conditions that a word breaks, if its fields are all in order."""
    try:
        instruction = record.decode(number)
    except Unfit:
        return []
    return [check.name for check in record.checks if not check.holds(instruction)]
