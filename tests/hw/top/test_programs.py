"""The golden machine's own tests, with the hardware beside it: what one does, the other must do.

Every program that a test of `tests.model` runs by time is run on the hardware too, from the same
memory: the same fault, or the same memory after it. Runs with interleavings by chance, of other
configurations, and what only the golden machine can find, are left out.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hw.sim import model
from hw.sim.machine import SimulatedMachine
from kohakutpu.config import QUARTER_BYTES, WORD_BYTES, preset
from kohakutpu.devices.host import TABLE_WORDS, Host
from kohakutpu.model import Fault, GoldenMachine, Program, Report
from tests.model.support import DATA

pytestmark = pytest.mark.cocotb

TINY = preset("tiny")
TABLE = DATA // WORD_BYTES - TABLE_WORDS
"""Between programs and data, where these tests have nothing."""

GOLDEN_RUN = GoldenMachine.run
TESTS = Path(__file__).parents[2] / "model"
FILES = ("test_cluster.py", "test_transfer.py", "test_execute.py", "test_frontend.py")


@cache
def host(words: int) -> Host:
    simulated = SimulatedMachine(TINY, model.build(TINY), memory_words=words)
    return Host(TINY, simulated, watchdog=20_000, table=TABLE)


def reads_unwritten(programs: Sequence[Program], before: np.ndarray) -> bool:
    """Tell whether a program reads storage that nobody has written in this run."""
    watching = GoldenMachine(TINY, memory_words=before.size // WORD_BYTES, poison=True)
    watching.memory.write(0, before)
    try:
        GOLDEN_RUN(watching, programs)
    except Fault as fault:
        return fault.cause == "UNWRITTEN"
    return False


class Beside:
    """A pytest plugin that lets the hardware run what the golden machine runs."""

    def __init__(self) -> None:
        self.runs = 0
        self.faults = 0

    @pytest.fixture(autouse=True)
    def hardware(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(golden: GoldenMachine, programs: Sequence[Program], **options: Any) -> Report:
            before = golden.memory.data.copy()
            fault, report = None, None
            try:
                report = GOLDEN_RUN(golden, programs, **options)
            except Fault as error:
                fault = error
            known = golden.machine == TINY and golden.seed is None and not options
            if known and (fault is None or fault.cause != "UNWRITTEN"):
                self.compare(golden, programs, before, fault)
            if fault is not None:
                raise fault
            assert report is not None
            return report

        monkeypatch.setattr(GoldenMachine, "run", run)

    def compare(
        self,
        golden: GoldenMachine,
        programs: Sequence[Program],
        before: np.ndarray,
        fault: Fault | None,
    ) -> None:
        ours = host(before.size // WORD_BYTES)
        memory = ours.target.memory
        memory[:] = before
        outcome = ours.run([(p.node, p.address, p.count) for p in programs])
        self.runs += 1
        if fault is not None:
            self.faults += 1
            assert outcome.fault == (fault.node, fault.pc, fault.cause)
            return
        assert outcome.fault is None
        if reads_unwritten(programs, before):  # and may hold anything
            return
        wrong = memory != golden.memory.data
        wrong[TABLE * WORD_BYTES :][: TABLE_WORDS * WORD_BYTES] = False
        if golden.memory.written is not None:  # what nobody has written is no matter
            wrong &= np.repeat(golden.memory.written, QUARTER_BYTES)
        assert not wrong.any(), f"first at byte {np.flatnonzero(wrong)[0]}"


@pytest.mark.parametrize("file", FILES)
def test_beside_the_golden_machine(file: str) -> None:
    plugin = Beside()
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "", str(TESTS / file)]
    assert pytest.main(arguments, plugins=[plugin]) == 0
    assert plugin.runs >= 20
