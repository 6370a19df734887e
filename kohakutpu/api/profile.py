"""``ktpu.profile``: what a device ran, kernel by kernel, as a table, a timeline or a picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from compiler.report import table
from kohakuaccel.errors import CallError
from kohakuaccel.image import Image
from kohakuaccel.runtime.device import KeepsTimeline, Report
from kohakuaccel.source import caller
from kohakutpu.api.roofline import Point, picture
from kohakutpu.api.session import Session, current
from kohakutpu.api.timeline import events
from kohakutpu.config import Machine


@dataclass(frozen=True)
class Dispatch:
    """One run of a kernel: its name, what ran, and what the device counted."""

    kernel: str
    image: Image
    report: Report


@dataclass(frozen=True)
class Share:
    """What all runs of one kernel took together.

    Attributes
    ----------
    kernel : str
        Its name.
    runs, cycles, macs : int
        How often, how long, and multiply-accumulates, padding included.
    words : int
        Read from memory and written to it, programs included.
    busiest : str
        The kind of engine that worked in most cycles.
    busy : float
        The share of cycles in which it did, averaged over the units that have one.
    """

    kernel: str
    runs: int
    cycles: int
    macs: int
    words: int
    busiest: str
    busy: float


class Profile:
    """What the selected device runs in a ``with`` block.

    Attributes
    ----------
    machine : Machine
        The configuration it runs on.
    dispatches : list of Dispatch
        Every run, in order.
    """

    def __init__(self, session: Session) -> None:
        self.machine: Machine = session.machine
        self.dispatches: list[Dispatch] = []
        self._session = session
        self._nested = False  # whether somebody around keeps timelines already

    def __enter__(self) -> Self:
        """Start to watch; what waits is computed before."""
        self._session.flush()
        runtime = self._session.runtime
        runtime.watchers.append(self._watch)
        device = runtime.device
        if isinstance(device, KeepsTimeline):
            self._nested, device.timeline = device.timeline, True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Compute what waits, unless the block has failed, and stop watching."""
        runtime = self._session.runtime
        try:
            if kind is None:
                self._session.flush()
        finally:
            runtime.watchers.remove(self._watch)
            device = runtime.device
            if isinstance(device, KeepsTimeline):
                device.timeline = self._nested

    def _watch(self, image: Image, report: Report) -> None:
        self.dispatches.append(Dispatch(image.meta.get("kernel", "?"), image, report))

    @property
    def cycles(self) -> int:
        """Cycles of all runs together."""
        return sum(dispatch.report.cycles for dispatch in self.dispatches)

    def shares(self) -> list[Share]:
        """Return what each kernel took, the one that took longest first."""
        grouped: dict[str, list[Report]] = {}
        for dispatch in self.dispatches:
            grouped.setdefault(dispatch.kernel, []).append(dispatch.report)
        found = [_share(kernel, reports) for kernel, reports in grouped.items()]
        return sorted(found, key=lambda share: -share.cycles)

    def pretty(self) -> str:
        """Return a table of the kernels: cycles, and how near they are to what the machine can."""
        peak, ports = _limits(self.machine)
        total = max(1, self.cycles)
        rows = [
            (
                share.kernel,
                f"{share.runs:,}",
                f"{share.cycles:,}",
                f"{100 * share.cycles / total:.0f}%",
                f"{share.macs / max(1, share.cycles):.1f}",
                f"{100 * share.macs / max(1, share.cycles) / peak:.0f}%",
                f"{share.words / max(1, share.cycles):.2f}",
                f"{100 * share.words / max(1, share.cycles) / ports:.0f}%",
                f"{share.busiest} {100 * share.busy:.0f}%",
            )
            for share in self.shares()
        ]
        head = ("kernel", "runs", "cycles", "of all", "MAC/cycle", "of peak")
        head += ("words/cycle", "of ports", "busiest engine")
        lines = table(head, rows)
        runs = len(self.dispatches)
        lines.append(f"{self._session.name}, machine {self.machine.name}: {runs:,} runs")
        lines[-1] += f", {self.cycles:,} cycles"
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.pretty()

    def timeline(self, path: str | Path) -> None:
        """Write what every engine did when, as a file that https://ui.perfetto.dev opens.

        A process is a unit, a thread an engine, a slice an instruction with its line of the kernel.
        A cycle is a microsecond there.

        Raises
        ------
        CallError
            If the device keeps no timeline.
        """
        if any(d.report.instructions and not d.report.timeline for d in self.dispatches):
            raise CallError(
                f"{self._session!r} keeps no timeline: it counts busy cycles of engines only",
                loc=caller(),
                fix='use ktpu.device("golden"), without a seed; waves=... records what RTL does',
            )
        found = events(((d.kernel, d.image, d.report) for d in self.dispatches), self.machine)
        content = {
            "traceEvents": found,
            "displayTimeUnit": "ms",
            "otherData": {"machine": self.machine.name, "unit": "1 us is 1 cycle"},
        }
        Path(path).write_text(json.dumps(content, separators=(",", ":")))

    def roofline(self, path: str | Path) -> None:
        """Write a picture, as SVG, of how near each kernel is to what the machine can do.

        Across is what a kernel computes for each word over the memory ports, upwards what it
        computes in a cycle; the roof is the peak of the clusters, or what the ports let in.
        Kernels without multiply-accumulates are in the list below, by words a cycle.
        """
        peak, ports = _limits(self.machine)
        points = [Point(s.kernel, s.cycles, s.macs, s.words) for s in self.shares()]
        Path(path).write_text(picture(self.machine.name, peak, ports, points))


def profile() -> Profile:
    """Watch what the selected device runs: ``with ktpu.profile() as seen: ...``.

    Afterwards ``print(seen)`` shows a table of the kernels, ``seen.timeline("run.json")`` writes a
    file that https://ui.perfetto.dev opens, and ``seen.roofline("roof.svg")`` a picture.
    """
    return Profile(current())


def _limits(machine: Machine) -> tuple[int, int]:
    """Return the multiply-accumulates and the words of memory that a cycle can bring."""
    return machine.macs_per_cycle * len(machine.of_kind("C")), len(machine.of_kind("M"))


def _share(kernel: str, reports: list[Report]) -> Share:
    def total(what: Callable[[Report], int]) -> int:
        return sum(what(report) for report in reports)

    busy: dict[str, float] = {}
    for report in reports:
        for name in {name for unit in report.units for name in unit.engines}:
            engines = [unit.engines[name] for unit in report.units if name in unit.engines]
            mean = sum(engine.busy for engine in engines) / len(engines)
            busy[name] = busy.get(name, 0.0) + mean
    cycles = total(lambda report: report.cycles)
    busiest = max(busy, key=lambda name: busy[name], default="none")
    return Share(
        kernel,
        len(reports),
        cycles,
        total(lambda report: report.macs),
        total(lambda report: report.memory_read + report.memory_written),
        busiest,
        busy.get(busiest, 0.0) / max(1, cycles),
    )
