"""What a run did: cycles and counters, by machine, unit and engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kohakutpu.model.unit import Unit


@dataclass(frozen=True)
class EngineReport:
    """One engine: instructions done, cycles busy, cycles an instruction waited at its head."""

    name: str
    instructions: int
    busy: int
    stalled: int


@dataclass(frozen=True)
class UnitReport:
    """One unit.

    Attributes
    ----------
    cycles : int
        When it reported, counted from GO; 0 without timing.
    instructions : int
        What its front end took, control instructions and those it handed to engines.
    fetched_words : int
        Instruction words read from memory; loops that fit the buffer are read once.
    macs : int
        Multiply-accumulates, padding included.
    read_words : int
        Words from memory that landed in the unit for transfers of its own.
    written_words : int
        Words its transfers wrote to memory.
    noc_words : int
        These, and words it sent to other units, each counted once however many receive it.
    """

    node: int
    kind: str
    cycles: int
    instructions: int
    fetched_words: int
    macs: int
    read_words: int
    written_words: int
    noc_words: int
    engines: tuple[EngineReport, ...]


@dataclass(frozen=True)
class Span:
    """One instruction on the timeline: `start` to `end` in cycles from GO."""

    node: int
    engine: str
    pc: int
    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Report:
    """The whole machine; sums of what `UnitReport` has.

    Attributes
    ----------
    cycles : int
        From GO until the last unit has reported; 0 without timing.
    timeline : tuple of Span
        Empty unless asked for.
    """

    cycles: int
    units: tuple[UnitReport, ...]
    timeline: tuple[Span, ...] = field(default=(), repr=False)

    @property
    def instructions(self) -> int:
        """Instructions the front ends took."""
        return sum(unit.instructions for unit in self.units)

    @property
    def fetched_words(self) -> int:
        """Instruction words read from memory."""
        return sum(unit.fetched_words for unit in self.units)

    @property
    def macs(self) -> int:
        """Multiply-accumulates, padding included."""
        return sum(unit.macs for unit in self.units)

    @property
    def read_words(self) -> int:
        """Data words read from memory."""
        return sum(unit.read_words for unit in self.units)

    @property
    def written_words(self) -> int:
        """Data words written to memory."""
        return sum(unit.written_words for unit in self.units)

    @property
    def noc_words(self) -> int:
        """Data words that crossed the NoC."""
        return sum(unit.noc_words for unit in self.units)

    def unit(self, node: int) -> UnitReport:
        """Return the report of one unit.

        Raises
        ------
        KeyError
            If the unit ran nothing.
        """
        for unit in self.units:
            if unit.node == node:
                return unit
        raise KeyError(f"unit {node} ran nothing; {[unit.node for unit in self.units]} did")


def collect(
    units: Iterable[Unit], cycles: int, timeline: Iterable[Span], timing: bool
) -> Report:  # fmt: skip
    """Read the counters of the units that ran; without `timing`, those in cycles are 0."""
    timed = int(timing)
    return Report(
        cycles * timed,
        tuple(
            UnitReport(
                unit.node,
                unit.kind,
                unit.settled * timed,
                unit.instructions,
                unit.fetched,
                unit.macs,
                unit.read_words,
                unit.written_words,
                unit.noc_words,
                tuple(
                    EngineReport(
                        engine.name,
                        engine.instructions,
                        engine.busy * timed,
                        engine.stalled * timed,
                    )
                    for engine in unit.engines
                ),
            )
            for unit in units
        ),
        tuple(timeline),
    )
