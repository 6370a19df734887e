"""The conformance suite on the simulated hardware."""

import pytest

from kohakutpu.config import preset
from kohakutpu.conformance import generate, run
from kohakutpu.devices.rtl import RtlDevice

pytestmark = pytest.mark.cocotb


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("tiny", 8),
        ("small", 8),
        pytest.param("tiny", 1, marks=pytest.mark.slow),
        pytest.param("small", 1, marks=pytest.mark.slow),
    ],
)
def test_the_suite(name: str, every: int) -> None:
    machine = preset(name)
    cases = [case for case, _ in generate(machine)]
    # How much a queue holds differs in how it is built, machine by machine.
    chosen = [case for n, case in enumerate(cases) if n % every == 0 or "queue" in case.name]
    device = RtlDevice(machine)
    verdicts = run(chosen, device)
    device.close()
    assert len(verdicts) == len(chosen)
    assert [(v.case.name, v.problems, v.skipped) for v in verdicts if not v.passed] == []
