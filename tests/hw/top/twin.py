"""A device that is two: the golden machine and the simulated hardware, compared after every run."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hw.sim.machine import SimulatedMachine
from kohakuaccel.runtime.device import Bytes, DeviceFault, Program, Report
from kohakutpu.config import KBLOCK, WORD_BYTES, Machine
from kohakutpu.devices import Kind
from kohakutpu.devices.golden import GoldenDevice
from kohakutpu.devices.host import TABLE_WORDS, Host, Outcome

WORDS = 1 << 17
"""Words of memory that are used and compared: 4 MiB."""

MACS_PER_STEP = 512


class Twin:
    """What one machine computes, the other must compute: the whole memory, byte by byte.

    Parameters
    ----------
    machine : Machine
        Which.
    library : path, optional
        Of the simulator.
    **options
        Of `SimulatedMachine`.
    """

    name = "twin"
    granule = WORD_BYTES

    def __init__(self, machine: Machine, library: Any = None, **options: Any) -> None:
        self.golden = GoldenDevice(machine)
        self.machine_hash = machine.hash
        self.memory_bytes = (WORDS - TABLE_WORDS) * WORD_BYTES
        self.padding = 0xFF
        simulated = SimulatedMachine(machine, library, memory_words=WORDS, **options)
        self.host = Host(machine, simulated, watchdog=20_000)
        self.memory = simulated.memory[: self.memory_bytes]
        self.outcomes: list[Outcome] = []
        self._cycles_a_step = KBLOCK // machine.k_per_cycle
        self._programs: Sequence[Program] = ()

    def write(self, address: int, data: Bytes) -> None:
        self.golden.write(address, data)
        values = np.frombuffer(data, np.uint8)
        self.memory[address : address + values.size] = values

    def read(self, address: int, nbytes: int) -> Bytes:
        return self.memory[address : address + nbytes].tobytes()

    def renew(self, address: int, rows: int, row_bytes: int, stride: int) -> None:
        self.write(address, bytes([self.padding]) * (rows * stride))

    def load(self, programs: Sequence[Program]) -> None:
        self._programs = programs
        self.golden.load(programs)

    def run(self) -> Report:
        try:
            report, fault = self.golden.run(), None
        except DeviceFault as error:
            report, fault = Report(), (error.unit, error.pc, error.cause)
        outcome = self.host.run([(p.node, p.address, p.count) for p in self._programs])
        self.outcomes.append(outcome)
        assert outcome.fault == fault
        if fault is not None:
            raise DeviceFault(*fault, "the same on both")
        ours = np.frombuffer(self.golden.read(0, self.memory_bytes), np.uint8)
        wrong = np.flatnonzero(ours != self.memory)
        assert wrong.size == 0, (
            f"{wrong.size} bytes of memory differ, the first at word {wrong[0] // WORD_BYTES}, "
            f"byte {wrong[0] % WORD_BYTES}, the last at word {wrong[-1] // WORD_BYTES}"
        )
        self._count(outcome, report)
        return report

    def _count(self, outcome: Outcome, report: Report) -> None:
        """Compare counters that both have, and what holds between the hardware's own."""
        units = [outcome.counters[program.node] for program in self._programs]
        clusters = [c for c, p in zip(units, self._programs, strict=True) if p.kind == "C"]
        assert MACS_PER_STEP * sum(counted["steps_1"] for counted in clusters) == report.macs
        assert [c["instructions"] for c in units] == [u.instructions for u in report.units]
        assert sum(c["written"] for c in units) == report.memory_written
        assert sum(c["read"] + c["written"] + c["sent"] for c in units) == report.noc
        for counted in units:
            for engine in range(3):
                assert counted[f"steps_{engine}"] <= counted[f"busy_{engine}"]
                assert counted[f"busy_{engine}"] + counted[f"stalled_{engine}"] <= outcome.cycles
        for counted in clusters:
            assert counted["steps_1"] * self._cycles_a_step <= counted["busy_1"]

    def reset_memory(self) -> None:
        """Make both alike again: after a fault what was written may differ."""
        self.golden.write(0, self.memory.tobytes())

    def reset(self) -> None:
        self.golden.reset()
        self.host.target.reset()

    def close(self) -> None:
        self.host.target.close()


def no_options(environment: Any) -> dict[str, Any]:
    return {}


KIND = Kind("both", Twin, {"stalls": int, "latency": int}, no_options)
