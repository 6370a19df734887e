"""The hardware's own description as a device: simulated by Verilator, exact to the cycle.

The simulator is built at the first use of a configuration and kept; `hw` and its tools are
imported only then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kohakuaccel.errors import CallError
from kohakuaccel.runtime.device import Bytes, Program, Report
from kohakuaccel.source import caller
from kohakutpu.config import WORD_BYTES, Machine
from kohakutpu.devices.expected import RunProgress, instructions
from kohakutpu.devices.host import FOREVER, TABLE_WORDS, Host, expect, summary


class RtlDevice:
    """A simulated machine behind the device protocol.

    Parameters
    ----------
    machine : Machine
        Its configuration.
    stalls : int
        Seed of random stalls and latencies of memory; 0 for none.
    latency : int
        Cycles from a request to memory to its answer, at least.
    errors : tuple of (int, int)
        First word of memory whose access fails, and the one after the last.
    watchdog : int
        Cycles without progress after which a run ends with a fault.
    limit : int
        Cycles after which a run is stopped, whatever it does; 0 for none.
    checked : bool
        With assertions, at some cost in speed.
    waves : str
        File to record waves in, as VCD; the simulator is then a slower one.
    waves_scope : str
        The module below which waves are recorded, as ``top.top.unit_0``; all by default.
    waves_from, waves_to : int
        Cycles since the device was made of which waves are recorded.

    Raises
    ------
    CallError
        If a tool that building the simulator needs is missing.
    """

    name = "rtl"
    granule = WORD_BYTES
    padding = 0

    def __init__(
        self,
        machine: Machine,
        *,
        stalls: int = 0,
        latency: int = 16,
        errors: tuple[int, int] = (0, 0),
        watchdog: int = 1 << 16,
        limit: int = 0,
        checked: bool = False,
        waves: str = "",
        waves_scope: str = "",
        waves_from: int = 0,
        waves_to: int = FOREVER,
    ) -> None:
        _check_tools()
        from hw.sim.machine import SimulatedMachine, Waves
        from hw.sim.model import Variant, build

        variant = Variant.WAVES if waves else Variant.CHECKED if checked else Variant.FAST
        self.machine_hash = machine.hash
        self.memory_end = machine.dram_words * WORD_BYTES
        self.memory_bytes = self.memory_end - TABLE_WORDS * WORD_BYTES
        self._watchdog = watchdog
        self._limit = limit or FOREVER
        self._simulated = SimulatedMachine(
            machine,
            build(machine, variant=variant),
            stalls=stalls,
            latency=latency,
            errors=errors,
            waves=Waves(Path(waves), waves_scope, waves_from, waves_to) if waves else None,
        )
        self._host = Host(machine, self._simulated, watchdog)
        self._programs: list[Program] = []

    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to memory from byte `address`."""
        source = np.frombuffer(data, np.uint8)
        self._simulated.memory[address : address + source.size] = source

    def read(self, address: int, nbytes: int) -> Bytes:
        """Return a view of memory."""
        return self._simulated.memory[address : address + nbytes].data.toreadonly()

    def renew(self, address: int, rows: int, row_bytes: int, stride: int) -> None:
        """Do nothing: hardware does not know what was written."""

    def load(self, programs: Sequence[Program]) -> None:
        """Set the unit table."""
        self._programs = list(programs)

    def run(self) -> Report:
        """Run the programs of the unit table.

        Raises
        ------
        DeviceFault
            If the machine stopped, or ran for longer than the limit.
        """
        table = [(program.node, program.address, program.count) for program in self._programs]
        progress = RunProgress(self._expected)
        try:
            outcome = self._host.run(
                table,
                lambda cycles: progress.update(cycles, self._simulated.instructions),
                self._limit,
            )
        finally:
            progress.close()
        expect(outcome, self._watchdog, self._limit)
        return summary(outcome, self._programs)

    def _expected(self) -> int:
        """Return how many instructions the programs will take, or 0 if one does not say."""
        counts = [
            instructions(self.read(program.address, program.count * WORD_BYTES), program.kind)
            for program in self._programs
        ]
        return sum(counts) if all(counts) else 0

    def reset(self) -> None:
        """Pull the machine's reset; memory stays."""
        self._simulated.reset()
        self._host.configure()

    def close(self) -> None:
        """Give back the simulator and its memory."""
        self._simulated.close()


def _check_tools() -> None:
    from hw.sim import toolchain

    try:
        toolchain.find()
    except toolchain.ToolError as error:
        raise CallError(
            str(error).removesuffix(f": {toolchain.INSTALL}"),
            loc=caller(),
            fix=f"{toolchain.INSTALL}, or use ktpu.device('golden')",
        ) from None


def options(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that environment variables set.

    Raises
    ------
    ValueError
        If one cannot be read; the message names it.
    """
    found: dict[str, Any] = {}
    stalls = environment.get("KTPU_STALLS", "")
    if stalls:
        if not stalls.isdecimal():
            raise ValueError(f"KTPU_STALLS is a whole number, not {stalls!r}")
        found["stalls"] = int(stalls)
    waves = environment.get("KTPU_WAVES", "")
    if waves:
        found["waves"] = waves
    scope = environment.get("KTPU_WAVES_SCOPE", "")
    if scope:
        found["waves_scope"] = scope
    window = environment.get("KTPU_WAVES_CYCLES", "")
    if window:
        first, colon, end = window.partition(":")
        if not (colon and first.isdecimal() and end.isdecimal()):
            raise ValueError(f"KTPU_WAVES_CYCLES is FIRST:END, not {window!r}")
        found["waves_from"], found["waves_to"] = int(first), int(end)
    return found
