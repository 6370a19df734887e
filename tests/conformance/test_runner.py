"""Devices that are wrong in one way each, and what is said of them."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kohakuaccel.runtime.device import Bytes, DeviceFault, Report
from kohakutpu.config import preset
from kohakutpu.conformance import Case, Stop, export, generate, judge, report
from kohakutpu.conformance.coverage import Tally, measure
from kohakutpu.conformance.runner import gap
from kohakutpu.devices.golden import GoldenDevice

pytestmark = pytest.mark.conformance
TINY = preset("tiny")


@cache
def case(name: str) -> Case:
    ((found, _),) = generate(TINY, name)
    return found


WINDOW = "pipeline/back-to-back"
WRONG = "fault/V.SEM_LEFT/one"


class Lying(GoldenDevice):
    """A golden machine that tells something else than it did."""

    def __init__(
        self,
        said: Callable[[Report], Report] = lambda report: report,
        fault: Callable[[DeviceFault], DeviceFault | None] = lambda fault: fault,
        flipped: int = -1,
    ) -> None:
        super().__init__(TINY)
        self.said = said
        self.fault = fault
        self.flipped = flipped
        self.resets = 0

    def run(self) -> Report:
        try:
            return self.said(super().run())
        except DeviceFault as fault:
            told = self.fault(fault)
            if told is None:
                return Report()
            raise told from None

    def read(self, address: int, nbytes: int) -> Bytes:
        found = bytearray(super().read(address, nbytes))
        if address <= self.flipped < address + nbytes:
            found[self.flipped - address] ^= 1
        return bytes(found)

    def reset(self) -> None:
        self.resets += 1
        super().reset()


def problem(name: str, device: Lying) -> str:
    verdict = judge(case(name), device)
    assert not verdict.passed
    (text,) = verdict.problems
    return text


def test_an_honest_device_passes() -> None:
    device = Lying()
    for name in (WINDOW, WRONG, WINDOW):
        assert judge(case(name), device).passed
    assert device.resets == 1


def test_every_byte_counts() -> None:
    given = case(WINDOW)
    for address, content in given.memory:
        for place in (address, address + len(content) // 2, address + len(content) - 1):
            text = problem(WINDOW, Lying(flipped=place))
            assert f"1 of {len(content)} bytes from {address:#x} differ" in text
            assert f"first at {place // 8 * 8:#x}" in text


def test_counters_count() -> None:
    def one_more(told: Report) -> Report:
        return replace(told, units=(replace(told.units[0], instructions=8), *told.units[1:]))

    assert "unit 1 counts 8 instructions, not" in problem(WINDOW, Lying(one_more))
    text = problem("flag/on", Lying(lambda told: replace(told, macs=512)))
    assert text.startswith("512 multiply-accumulates, not ")


def test_faults_are_the_right_ones() -> None:
    def told(unit: int = 1, pc: int = 1, cause: str = "SEM_LEFT") -> str:
        return problem(WRONG, Lying(fault=lambda fault: DeviceFault(unit, pc, cause, "")))

    expected = "expected SEM_LEFT at unit 1, instruction 1"
    assert told(unit=0) == f"SEM_LEFT at unit 0, instruction 1; {expected}"
    assert told(pc=2).endswith(expected)
    assert told(cause="ILLEGAL").endswith(expected)
    assert problem(WRONG, Lying(fault=lambda fault: None)) == f"no fault; {expected}"

    class Faulting(Lying):
        def run(self) -> Report:
            raise DeviceFault(1, 3, "MEMORY", "")

    text = problem(WINDOW, Faulting())
    assert text == "MEMORY at unit 1, instruction 3; every unit should halt"


def test_a_pc_that_the_contract_leaves_open() -> None:
    given = replace(case(WRONG), stop=Stop(1, None, ("OVERLAP", "SEM_LEFT")))
    assert judge(given, Lying()).passed


def test_programs_go_where_nothing_else_is() -> None:
    given = case(WINDOW)
    place = gap(given, 640, TINY.dram_words * 32)
    assert place is not None
    for address, content in given.memory:
        assert place + 640 <= address or address + len(content) <= place
    end = max(address + len(content) for address, content in given.memory)
    assert gap(given, 640, end + 640) == end
    assert gap(given, 640, end + 608) is None
    assert gap(given, 0, end - 1) is None


def test_a_case_that_does_not_fit_is_skipped_and_says_so() -> None:
    device = Lying()
    device.memory_bytes = 1024
    verdict = judge(case(WINDOW), device)
    assert not verdict.passed
    assert not verdict.problems
    assert verdict.skipped == "the device has 1024 bytes of memory"


def test_memory_that_a_case_only_asks_for_counts() -> None:
    given = case("fault/MEMORY/VFILL-row")
    assert given.reach == TINY.dram_words * 32
    device = Lying()
    assert judge(given, device).passed
    device.memory_bytes -= 32  # what is behind may be read
    assert judge(given, device).passed
    device.memory_end -= 32
    assert judge(given, device).skipped


def test_another_machine_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is for the machine .* and the device golden plays"):
        judge(case(WINDOW), GoldenDevice(preset("small")))


def test_reports() -> None:
    good = judge(case(WINDOW), Lying())
    bad = judge(case(WINDOW), Lying(flipped=64))
    small = Lying()
    small.memory_bytes = 32
    skipped = judge(case(WRONG), small)
    tally = Tally("things", 1.0, {"a", "b"}, {"a"})
    outcome = report.Outcome("golden", "tiny", (good, bad, skipped), (tally,), 1.5)
    root = ElementTree.fromstring(report.junit([outcome]))
    (suite,) = root
    counts = {key: suite.get(key) for key in ("tests", "failures", "skipped")}
    assert counts == {"tests": "3", "failures": "1", "skipped": "1"}
    assert [len(element) for element in suite] == [0, 1, 1]
    assert suite[1][0].get("message", "").startswith("1 of ")
    (told,) = report.as_json([outcome])
    assert [entry["passed"] for entry in told["cases"]] == [True, False, False]
    assert told["coverage"][0]["holes"] == ["b"]
    groups = outcome.groups()
    assert groups["pipeline"] == {"cases": 2, "passed": 1, "failed": 1, "cycles": 2 * good.cycles}
    assert groups["fault"] == {"cases": 1, "skipped": 1, "cycles": 0}


def test_frozen_cases_are_the_same(tmp_path: Path) -> None:
    cases = [made for made, _ in generate(TINY, "barrier/*")]
    cases += [made for made, _ in generate(TINY, "pipeline/*")]
    cases.append(case(WRONG))
    assert len(cases) > 15
    assert export.write(tmp_path, TINY, cases) == len(cases)
    again = export.read(tmp_path)
    assert again == cases
    assert [found.reach for found in again] == [given.reach for given in cases]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("suite.json", b"[]", "no index of a suite"),
        ("suite.json", b"{", "no index of a suite"),
        ("suite.json", b'{"format": 7}', "format 7; this reader knows 1"),
        ("suite.json", b'{"format": 1, "cases": [{}]}', "no index of a suite"),
        ("00000.before", b"", "0 bytes, not "),
        ("00000.image", b"what", "not an image"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, file: str, content: bytes, message: str) -> None:
    export.write(tmp_path, TINY, [case(WINDOW)])
    (tmp_path / file).write_bytes(content)
    with pytest.raises(export.SuiteError, match=message):
        export.read(tmp_path)


def test_coverage_names_what_is_missing() -> None:
    tallies = {tally.title: tally for tally in measure(generate(TINY, "pipeline/*"))}
    assert "C FILL mode=residual" in tallies["enum values"].holes
    assert "C GEMM" in tallies["instructions, by kind of unit"].met
    assert "V BARRIER" in tallies["instructions, by kind of unit"].holes
    assert "C GEMM nk=1" in tallies["field boundaries"].met
    assert "C GEMM nk=1023" in tallies["field boundaries"].holes
    assert not tallies["field boundaries"].enough
    assert "V WATCHDOG" in tallies["fault causes, by kind of unit"].holes
    assert "GEMM two semaphores" in tallies["conditions between operands, broken"].holes
    assert "EXEC f=lt unary=exp2" in tallies["pairs of choices"].holes
