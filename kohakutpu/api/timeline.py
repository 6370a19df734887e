"""Timelines in the JSON trace event format, which Perfetto and Chrome's tracing page read.

A slice is a "complete" event: ``ts`` and ``dur`` are microseconds, ``pid`` and ``tid`` its process
and thread, which events of the phase ``M`` name and order.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from kohakuaccel.image import DebugEntry, Image
from kohakuaccel.runtime.device import Report
from kohakutpu.config import Machine

Event = dict[str, Any]
KERNELS = 0  # the process that shows which kernel runs; that of a unit is its node plus 1
ENGINES = {"C": ("FILL", "GEMM", "DRAIN"), "V": ("VFILL", "EXEC", "VDRAIN")}
KINDS = {"C": "cluster", "V": "vector core"}


def events(runs: Iterable[tuple[str, Image, Report]], machine: Machine) -> list[Event]:
    """Return the events of runs of kernels, one after the other."""
    found = list(_names(machine))
    kinds = {node.id: node.kind for node in machine.nodes}
    start = 0
    for kernel, image, report in runs:
        found.append(_slice(kernel, KERNELS, 0, start, report.cycles, {"cycles": report.cycles}))
        lines = _Lines(image)
        for span in report.timeline:
            thread = ENGINES[kinds[span.node]].index(span.engine)
            details = {"kernel": kernel, "pc": span.pc, **lines.of(span.node, span.pc)}
            length = span.end - span.start
            found.append(
                _slice(span.name, span.node + 1, thread, start + span.start, length, details)
            )
        start += report.cycles
    return found


def _slice(name: str, pid: int, tid: int, start: int, length: int, args: Event) -> Event:
    return {
        "ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length, "args": args,
    }  # fmt: skip


def _names(machine: Machine) -> Iterator[Event]:
    yield _named("process_name", KERNELS, 0, {"name": "kernels"})
    yield _named("thread_name", KERNELS, 0, {"name": "dispatches"})
    for node in machine.nodes:
        if node.kind in ENGINES:
            process = node.id + 1
            title = f"{KINDS[node.kind]} {node.kind}{node.id}"
            yield _named("process_name", process, 0, {"name": title})
            yield _named("process_sort_index", process, 0, {"sort_index": process})
            for thread, engine in enumerate(ENGINES[node.kind]):
                yield _named("thread_name", process, thread, {"name": engine})
                yield _named("thread_sort_index", process, thread, {"sort_index": thread})


def _named(name: str, pid: int, tid: int, args: Event) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


class _Lines:
    """Which line of the kernel an instruction comes from."""

    def __init__(self, image: Image) -> None:
        self._entries: dict[int, list[DebugEntry]] = {unit.node: [] for unit in image.units}
        for entry in image.debug:
            self._entries[image.units[entry.unit].node].append(entry)
        self._starts = {node: [e.pc for e in own] for node, own in self._entries.items()}

    def of(self, node: int, pc: int) -> Event:
        place = bisect_right(self._starts[node], pc) - 1
        if place < 0:
            return {}
        entry = self._entries[node][place]
        return {"line": f"{os.path.relpath(entry.file)}:{entry.line}", "statement": entry.statement}
