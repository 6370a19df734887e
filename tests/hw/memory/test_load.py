import numpy as np
import pytest

from hw.memory.burst import ReadBurst
from hw.memory.port import MemoryPort
from hw.sim.simulator import Simulator
from kohakutpu.config import Machine
from tests.hw.memory.load import LoadedMachine

pytestmark = pytest.mark.cocotb

# Two memory ports at opposite corners: what goes to one crosses what comes from the other.
MACHINE = Machine("crossed", "M C V\nV C M\n. H .", dram_words=1 << 14)


@pytest.mark.usefixtures("refused")
def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match=r"node must be one of the memory ports \[0, 5\], not 1"):
        MemoryPort(MACHINE, 1)
    for longest in (0, 65, 129):
        with pytest.raises(ValueError, match=f"longest must be from 1 to 64, not {longest}"):
            ReadBurst(64, longest)


def test_two_memory_ports_under_full_load() -> None:
    phases = np.array(
        [
            # cycles, rate, accept, memory
            (60_000, 256, 256, 256),
            (60_000, 256, 40, 256),
            (60_000, 256, 256, 20),
            (60_000, 256, 100, 100),
            (20_000, 20, 256, 256),
            (40_000, 256, 10, 200),
        ]
    )
    drain = 20_000
    rate, accept, memory = (np.repeat(phases[:, i], phases[:, 0]) for i in (1, 2, 3))
    result = Simulator(LoadedMachine(MACHINE)).cycles(
        rate=np.concatenate([rate, np.zeros(drain, int)]),
        accept=np.concatenate([accept, np.full(drain, 256)]),
        memory=np.concatenate([memory, np.full(drain, 256)]),
    )
    moved, settled = result["moved"], result["settled"]
    assert settled[-1], "words, credits or ACKs are missing"
    assert not settled[-drain - 1]
    assert not moved[-drain // 2 :].any()
    for flits in np.split(moved[:-drain], np.cumsum(phases[:, 0])[:-1]):
        windows = flits[: len(flits) // 1000 * 1000].reshape(-1, 1000).sum(axis=1, dtype=int)
        assert windows.min() > 0, "nothing arrived for 1,000 cycles"
