import numpy as np
import pytest
from numpy.typing import NDArray

from hw.sim.simulator import Simulator
from kohakutpu.config import Machine, preset
from tests.hw.noc.traffic import Checker, Pattern, Traffic

pytestmark = pytest.mark.cocotb

DRAIN = 2000  # cycles without a new flit at the end of a run: more than any queue holds


def run(
    mesh: Simulator, phases: list[tuple[int, int, Pattern, int, int]]
) -> list[NDArray[np.uint8]]:
    """Run phases of cycles, rate, pattern, accept, slow nodes; return the flits moved in each."""
    columns = [[phase[0] for phase in phases]]
    columns += [[int(getattr(p[i], "value", p[i])) for p in phases] for i in range(1, 5)]
    length, *values = (np.array(column) for column in columns)
    rate, pattern, accept, slow = (np.repeat(value, length) for value in values)
    quiet = np.zeros(DRAIN, np.int64)
    result = mesh.cycles(
        rate=np.concatenate([rate, quiet]),
        pattern=np.concatenate([pattern, quiet]),
        accept=np.concatenate([accept, quiet + 256]),
        slow=np.concatenate([slow, quiet]),
    )
    assert not result["error"].any(), "something arrived that was not to come next"
    assert result["balanced"][-1], "not everything that was sent has arrived"
    assert not result["balanced"][-DRAIN - 1], "nothing was on its way"
    assert not result["moved"][-DRAIN // 2 :].any()
    return np.split(result["moved"][:-DRAIN], np.cumsum(length)[:-1])


def random_phases(seed: int, count: int) -> list[tuple[int, int, Pattern, int, int]]:
    random = np.random.default_rng(seed)
    rates = (3, 30, 128, 256)
    phases = [
        (
            int(random.integers(100, 3000)),
            int(random.choice(rates)),
            Pattern(int(random.integers(4))),
            int(random.choice(rates)),
            int(random.integers(1 << 16)) if random.integers(2) else 0,
        )
        for _ in range(count)
    ]
    return [*phases, (200, 256, Pattern.MIXED, 256, 0)]


@pytest.fixture(scope="module")
def quad() -> Simulator:
    return Simulator(Traffic(preset("quad")))


@pytest.fixture(scope="module")
def tiny() -> Simulator:
    return Simulator(Traffic(preset("tiny")))


@pytest.mark.parametrize("seed", range(3))
def test_each_member_gets_each_flit_once_and_in_order(tiny: Simulator, seed: int) -> None:
    run(tiny, random_phases(seed, 40))


def test_saturated_for_a_million_cycles(quad: Simulator) -> None:
    phases = [
        (150_000, 256, pattern, accept, slow)
        for pattern, accept, slow in (
            (Pattern.MIXED, 256, 0),
            (Pattern.SET, 256, 0),
            (Pattern.MIXED, 256, 0b0000_1000_0001),  # two sinks at a sixteenth
            (Pattern.SET, 100, 0b0100_0010_0000),
            (Pattern.ALL, 200, 0),
            (Pattern.MIXED, 20, 0),
        )
    ]
    phases.append((100_000, 256, Pattern.ONE, 256, 0))
    moved = run(quad, [*phases, *random_phases(3, 20)])
    assert sum(len(flits) for flits in moved) > 1_000_000
    for flits, phase in zip(moved, phases, strict=False):
        windows = flits[: len(flits) // 500 * 500].reshape(-1, 500).sum(axis=1, dtype=int)
        assert windows.min() > 0, f"nothing arrived for 500 cycles in {phase}"


def test_throughput(tiny: Simulator, quad: Simulator) -> None:
    # A broadcast from everybody leaves no unit idle: one flit a cycle, while ports of memory and
    # the control node miss their own.
    for mesh, nodes, others in ((tiny, 4, 2), (quad, 11, 3)):
        (moved,) = run(mesh, [(2000, 256, Pattern.ALL, 256, 0)])
        assert moved[100:].mean() > nodes - others / nodes - 0.1
    # Random receivers: bounded by the heads of queues, not by bubbles in links.
    (moved,) = run(tiny, [(20000, 256, Pattern.ONE, 256, 0)])
    assert moved[100:].mean() > 0.65 * 4
    (moved,) = run(quad, [(20000, 256, Pattern.ONE, 256, 0)])
    assert moved[100:].mean() > 0.5 * 11


def sequence(numbers: list[int], node: int) -> list[int]:
    """Flits from node 5 to `node` as a generator makes them, with these numbers."""
    flits = []
    for number in numbers:
        word = number << 16 * node | 0xABCD << 16 * (node + 1)
        fields = 0x55555555555555
        for low in range(0, 256, 60):
            fields ^= word >> low & (1 << 60) - 1
        kind = 1
        flits.append(1 << node | 5 << 16 | kind << 20 | fields << 24 | word << 84)
    return flits


def test_a_checker_notices() -> None:
    node = 3
    checker = Simulator(Checker(node))

    def error(flits: list[int]) -> bool:
        payload = [[flit >> low & 0xFFFFFFFF for low in range(0, 352, 32)] for flit in flits]
        result = checker.cycles(
            len(flits) + 1, rate=256, i__payload=payload, i__valid=np.ones(len(flits))
        )
        return bool(result["error"][-1])

    right = sequence([0, 1, 2, 3], node)
    assert not error(right)
    assert error(right[1:])
    assert error(right[:2] + right[3:])
    assert error([right[0], right[1], right[1]])
    assert error([right[1], right[0]])
    for bit in (0, 4, 17, 21, 24, 83, 84 + 16 * node + 16, 339):
        assert error([right[0], right[1] ^ 1 << bit]), bit


def test_a_mesh_of_one_row() -> None:
    machine = Machine("row", "C V M H")
    mesh = Simulator(Traffic(machine))
    run(mesh, random_phases(7, 20))
