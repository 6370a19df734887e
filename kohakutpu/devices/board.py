"""A machine on an FPGA board as a device: the same host, over a serial port."""

from __future__ import annotations

import errno
import secrets
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kohakuaccel.errors import CallError
from kohakuaccel.runtime.device import Bytes, Program, Report
from kohakuaccel.runtime.progress import Progress
from kohakuaccel.source import caller
from kohakutpu.config import WORD_BYTES, Machine
from kohakutpu.control import TABLE_WORDS, Command, Register, Status
from kohakutpu.devices.expected import RunProgress
from kohakutpu.devices.host import FOREVER, Host, expect, summary
from kohakutpu.link import Link, LinkError, Refused
from kohakutpu.link.frames import FRAME_WORDS

BAUD = 1_000_000
HOST_WORDS = TABLE_WORDS + 1
"""Words at the end of memory that are the host's: a token, and the unit table."""

POLL = 2e-3  # seconds between looks at a run
STOPPING = 1.0  # seconds for a run to stop
INSTALL = "python -m pip install 'kohakutpu[fpga]'"


class SerialPort:
    """A serial port that gives what it has.

    Parameters
    ----------
    path : str
        As ``/dev/ttyUSB0`` or ``COM3``.
    baud : int
        Bits a second.

    Raises
    ------
    CallError
        If pyserial is missing.
    LinkError
        If the port cannot be opened; every method does, if it goes away.
    """

    def __init__(self, path: str, baud: int) -> None:
        try:
            import serial
        except ImportError:
            raise CallError(
                "the device board needs pyserial, which is not installed",
                loc=caller(),
                fix=f"{INSTALL}, or use ktpu.device('golden')",
            ) from None
        self._path = path
        self._failure = serial.SerialException
        try:
            self._port: Any = serial.Serial(
                path, baud, timeout=0.05, write_timeout=5, exclusive=True
            )
        except (serial.SerialException, ValueError, OSError) as error:
            raise LinkError(f"{path} cannot be opened: {_reason(error)}") from None

    def write(self, data: bytes) -> int | None:
        """Send bytes."""
        try:
            return self._port.write(data)
        except (self._failure, OSError) as error:
            raise self._gone(error) from None

    def read(self, size: int) -> bytes:
        """Return what has come, or what comes first in a twentieth of a second."""
        try:
            return self._port.read(max(1, min(size, self._port.in_waiting)))
        except (self._failure, OSError, TypeError) as error:
            # pyserial reads a descriptor that became None when a port is closed meanwhile.
            raise self._gone(error) from None

    def close(self) -> None:
        """Let go of the port."""
        self._port.close()

    def _gone(self, error: Exception) -> LinkError:
        return LinkError(f"{self._path} went away ({error}); plug the board in again")


def _reason(error: Exception) -> str:
    """Return why a port cannot be opened, and what may help."""
    number = getattr(error, "errno", None)
    if number in (errno.EAGAIN, errno.EBUSY):
        return "another program or session has it open; close that first"
    if number == errno.EACCES:
        return "you may not use it; on Linux, join the group dialout and log in again"
    if number == errno.ENOENT:
        return "there is no such port; is the board plugged in?"
    return f"{error}; is it a serial port, and the board plugged in?"


class BoardTarget:
    """A board as its host reaches it."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._cycles = 0
        self.read, self.write = link.get, link.set

    @property
    def memory_words(self) -> int:
        """Words of memory."""
        return self.link.hello.memory_words

    @property
    def interrupt(self) -> bool:
        """Whether the run is over."""
        return bool(self.read(Register.STATUS) & Status.DONE)

    def store(self, address: int, data: bytes) -> None:
        """Write whole words of memory from a byte address."""
        self.link.write(address // WORD_BYTES, data)

    def run(self, cycles: int) -> int:
        """Wait a little, and return how many cycles the run is further."""
        time.sleep(POLL)
        before, self._cycles = self._cycles, self.cycles()
        return max(0, self._cycles - before)

    def cycles(self) -> int:
        """Return the cycles of the run."""
        # The upper half may change between two reads of it.
        while True:
            high = self.read(Register.CYCLES_HIGH)
            low = self.read(Register.CYCLES_LOW)
            if high == self.read(Register.CYCLES_HIGH):
                return low | high << 32

    def started(self) -> None:
        """Count from here."""
        self._cycles = 0


class BoardDevice:
    """A board behind the device protocol.

    A line that fails ends what is done with an error; the next use opens it again.

    Parameters
    ----------
    machine : Machine
        The configuration that the board must have.
    port : str
        The serial port, as ``/dev/ttyUSB0``.
    baud : int
        Bits a second, as the bitstream was built for.
    watchdog : int
        Cycles without progress after which a run ends with a fault.
    limit : int
        Cycles after which a run is stopped, whatever it does; 0 for none.

    Raises
    ------
    CallError
        If no port is named, pyserial is missing, or the board has another configuration.
    LinkError
        If nobody answers on the port.
    """

    name = "board"
    granule = WORD_BYTES
    padding = 0

    def __init__(
        self,
        machine: Machine,
        *,
        port: str = "",
        baud: int = BAUD,
        watchdog: int = 1 << 20,
        limit: int = 0,
    ) -> None:
        if not port:
            raise CallError(
                "the device board needs to know its serial port",
                loc=caller(),
                fix="name it: KTPU_PORT=/dev/ttyUSB0, or ktpu.device('board', port='/dev/ttyUSB0')",
            )
        self.machine_hash = machine.hash
        self._machine, self._port, self._baud = machine, port, baud
        self._watchdog, self._limit = watchdog, limit or FOREVER
        self._line: SerialPort | None = None
        self._token = secrets.token_bytes(WORD_BYTES)
        self._programs: list[Program] = []
        self._target, self._host = self._connect()
        self.memory_end = self._target.memory_words * WORD_BYTES
        self.memory_bytes = self.memory_end - HOST_WORDS * WORD_BYTES
        self._target.store(self.memory_bytes, self._token)

    def _connect(self) -> tuple[BoardTarget, Host]:
        line = SerialPort(self._port, self._baud)
        try:
            target = BoardTarget(Link(line, self._port, self._baud))
            _stop(target)
            host = Host(self._machine, target, self._watchdog)
        except RuntimeError as error:
            line.close()
            raise CallError(
                f"{self._port}: {error}",
                loc=caller(),
                fix=f"build a bitstream for it: ktpu build --machine {self._machine.name}, or "
                "choose the machine that the board has",
            ) from None
        except BaseException:
            line.close()
            raise
        self._line = line
        return target, host

    def _connected(self) -> BoardTarget:
        """Return the target, opened again if the line had failed."""
        if self._line is None:
            self._target, self._host = self._connect()
            kept = self._target.link.read(self.memory_bytes // WORD_BYTES, 1)
            if kept != self._token:
                self._drop()
                raise LinkError(
                    f"{self._port}: the board has lost its memory, or another program has used it; "
                    "open the device again and make new tensors"
                )
        return self._target

    def _drop(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    @contextmanager
    def _using(self) -> Generator[Link, None, None]:
        """Give the link, and let go of a line that fails."""
        try:
            yield self._connected().link
        except Refused:
            raise  # the line is well
        except LinkError:
            self._drop()
            raise

    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to memory from byte `address`, of a word.

        Raises
        ------
        LinkError
            If the board does not answer.
        """
        data = bytes(data)
        with self._using() as link:
            left = -len(data) % WORD_BYTES
            if left:  # the last word keeps its end
                last = link.read((address + len(data)) // WORD_BYTES, 1)
                data += last[WORD_BYTES - left :]
            for start, end in _pieces(len(data), f"to {self._port}"):
                link.write((address + start) // WORD_BYTES, data[start:end])

    def read(self, address: int, nbytes: int) -> Bytes:
        """Return bytes of memory, from the start of a word.

        Raises
        ------
        LinkError
            If the board does not answer.
        """
        with self._using() as link:
            whole = nbytes + -nbytes % WORD_BYTES
            parts = [
                link.read((address + start) // WORD_BYTES, (end - start) // WORD_BYTES)
                for start, end in _pieces(whole, f"from {self._port}")
            ]
        return b"".join(parts)[:nbytes]

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
        LinkError
            If the board does not answer.
        """
        table = [(program.node, program.address, program.count) for program in self._programs]
        progress = RunProgress()
        with self._using():
            self._target.started()
            try:
                outcome = self._host.run(table, progress.update, self._limit)
            finally:
                progress.close()
        expect(outcome, self._watchdog, self._limit)
        return summary(outcome, self._programs)

    def reset(self) -> None:
        """Stop what runs; memory stays. A line that failed is opened again at the next use."""
        if self._line is not None:
            with self._using():
                _stop(self._target)

    def close(self) -> None:
        """Let go of the port."""
        self._drop()


def _stop(target: BoardTarget) -> None:
    """Stop a run that somebody left behind, so that registers are as they were at the start.

    Raises
    ------
    LinkError
        If it does not stop.
    """
    deadline = time.monotonic() + STOPPING
    while target.read(Register.STATUS) & Status.BUSY:
        if time.monotonic() > deadline:
            raise LinkError(f"the machine does not stop within {STOPPING:.0f} s; reset the board")
        target.write(Register.COMMAND, Command.STOP)
        time.sleep(POLL)


def _pieces(nbytes: int, where: str) -> Iterator[tuple[int, int]]:
    """Cut a transfer into frames, and say how far it is if it takes long."""
    step = FRAME_WORDS * WORD_BYTES
    done = 0

    def describe(seconds: float) -> str:
        left = seconds * (nbytes - done) / done
        return f"{done:,} of {nbytes:,} bytes {where}, about {left:.0f} s left"

    progress = Progress(describe)
    try:
        for start in range(0, nbytes, step):
            done = min(nbytes, start + step)
            yield start, done
            progress.update()
    finally:
        progress.close()


def options(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that environment variables set.

    Raises
    ------
    ValueError
        If one cannot be read; the message names it.
    """
    found: dict[str, Any] = {}
    if environment.get("KTPU_PORT"):
        found["port"] = environment["KTPU_PORT"]
    baud = environment.get("KTPU_BAUD", "")
    if baud:
        if not baud.isdecimal():
            raise ValueError(f"KTPU_BAUD is a whole number, not {baud!r}")
        found["baud"] = int(baud)
    return found
