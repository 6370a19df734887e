"""Running cases on a device, and saying what was not as expected."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kohakuaccel.image import WORD_BYTES
from kohakuaccel.runtime.device import Device, DeviceFault, Program, Report
from kohakutpu.conformance.case import Case, Stop


@dataclass(frozen=True)
class Verdict:
    """How a case went.

    Attributes
    ----------
    case : Case
        Which one.
    problems : tuple of str
        What was not as expected, a sentence each; none if it passed.
    skipped : str
        Why it was not run; empty if it was.
    seconds : float
        How long it took.
    cycles : int
        What the device counted.
    """

    case: Case
    problems: tuple[str, ...] = ()
    skipped: str = ""
    seconds: float = 0.0
    cycles: int = 0

    @property
    def passed(self) -> bool:
        """Whether it was run and everything was as expected."""
        return not self.problems and not self.skipped


def run(
    cases: Iterable[Case], device: Device, seen: Callable[[Verdict], None] = lambda verdict: None
) -> list[Verdict]:
    """Run cases, one after the other, on a device that is used for nothing else.

    Parameters
    ----------
    cases : iterable of Case
        For the device's machine.
    device : Device
        Stays open.
    seen : callable
        Told of each verdict as it comes.

    Raises
    ------
    ValueError
        If a case is for another machine than the device plays.
    """
    verdicts: list[Verdict] = []
    for case in cases:
        verdict = judge(case, device)
        verdicts.append(verdict)
        seen(verdict)
    return verdicts


def judge(case: Case, device: Device) -> Verdict:
    """Run one case.

    Raises
    ------
    ValueError
        If the case is for another machine than the device plays.
    """
    if case.image.machine_hash != device.machine_hash:
        raise ValueError(
            f"{case.name} is for the machine {case.image.machine_hash}, and the device "
            f"{device.name} plays {device.machine_hash}"
        )
    started = time.perf_counter()
    programs = case.programs
    place = gap(case, sum(len(unit.words) for unit in programs), device.memory_bytes)
    # What only reads may read what belongs to the device.
    if place is None or case.reach > device.memory_end:
        return Verdict(case, skipped=f"the device has {device.memory_bytes} bytes of memory")
    for address, content in case.memory:
        device.write(address, content)
    table: list[Program] = []
    for unit in programs:
        device.write(place, unit.words)
        table.append(Program(unit.node, unit.kind, place, len(unit.words) // WORD_BYTES))
        place += len(unit.words)
    device.load(table)
    cycles = 0
    try:
        report = device.run()
    except DeviceFault as fault:
        problems = _compare_fault(case.stop, fault)
        device.reset()
    else:
        problems = _compare_end(case, device, report)
        cycles = report.cycles
    seconds = time.perf_counter() - started
    return Verdict(case, tuple(problems), seconds=seconds, cycles=cycles)


def gap(case: Case, nbytes: int, memory_bytes: int) -> int | None:
    """Return the first byte address where programs fit between the regions of a case.

    None if they fit nowhere, or a region does not.
    """
    if any(address + len(content) > memory_bytes for address, content in case.memory):
        return None
    place = 0
    for address, content in sorted(case.memory):
        if place + nbytes <= address:
            return place
        place = address + len(content)
    return place if place + nbytes <= memory_bytes else None


def _compare_fault(expected: Stop | None, found: DeviceFault) -> list[str]:
    what = f"{found.cause} at unit {found.unit}, instruction {found.pc}"
    if expected is None:
        return [f"{what}; every unit should halt"]
    if (
        found.unit == expected.unit
        and expected.pc in (None, found.pc)
        and found.cause in expected.causes
    ):
        return []
    return [f"{what}; expected {describe(expected)}"]


def describe(stop: Stop) -> str:
    """Return an expected fault in words."""
    where = f"unit {stop.unit}" + ("" if stop.pc is None else f", instruction {stop.pc}")
    return f"{' or '.join(stop.causes)} at {where}"


def _compare_end(case: Case, device: Device, report: Report) -> list[str]:
    if case.stop is not None:
        return [f"no fault; expected {describe(case.stop)}"]
    problems: list[str] = []
    for (address, _), expected in zip(case.memory, case.signature, strict=True):
        found = bytes(device.read(address, len(expected)))
        if found != expected:
            problems.append(_difference(address, expected, found))
    counted = {unit.node: unit.instructions for unit in report.units}
    for node, expected in case.instructions:
        if counted.get(node) != expected:
            problems.append(f"unit {node} counts {counted.get(node)} instructions, not {expected}")
    if report.macs != case.macs:
        problems.append(f"{report.macs} multiply-accumulates, not {case.macs}")
    return problems


def _difference(address: int, expected: bytes, found: bytes) -> str:
    places = [i for i, pair in enumerate(zip(expected, found, strict=True)) if pair[0] != pair[1]]
    first = places[0] // 8 * 8
    return (
        f"{len(places)} of {len(expected)} bytes from {address:#x} differ, first at "
        f"{address + first:#x}: {found[first : first + 8].hex(' ')}, "
        f"not {expected[first : first + 8].hex(' ')}"
    )
