"""A component with serial pins, compiled, and a host's end of its line."""

import ctypes
import os
import pty
import threading
import tty
from functools import partial
from pathlib import Path
from typing import Self

from amaranth.lib import wiring

from hw.sim import cache, toolchain
from hw.sim.emit import emit
from hw.sim.runtime import COMPILER
from hw.sim.simulator import VERILATOR, _build
from kohakutpu.link import Line

DRIVER = Path(__file__).with_name("serial.cpp")
ROOM = 4096


def build(component: wiring.Component) -> Path:
    """Return the library of a component with the ports ``receive`` and ``transmit``.

    Raises
    ------
    hw.sim.toolchain.ToolError
        If a tool is missing or fails.
    """
    tools = toolchain.find()
    text, driver = emit(component), DRIVER.read_text()
    contents = [tools.versions, text, driver, *VERILATOR, *COMPILER]
    name = f"{type(component).__name__.lower()}-serial"
    return cache.obtain(name, contents, partial(_build, tools, text, driver)) / "model.so"


class SerialModel:
    """A model behind its serial pins, as a line that `kohakutpu.link.Link` can use.

    Parameters
    ----------
    library : pathlib.Path
        From `build`.
    divisor : int
        Clock cycles of a bit.
    clock : int
        Frequency in Hz that the model is taken to have.
    wait : float
        Seconds of its time after which a read returns without anything.

    Attributes
    ----------
    cycles : int
        Since the beginning.
    """

    def __init__(
        self, library: Path, divisor: int, clock: int = 25_000_000, wait: float = 1e-3
    ) -> None:
        self._library = functions = ctypes.CDLL(str(library))
        functions.serial_new.restype = ctypes.c_void_p
        functions.serial_delete.argtypes = [ctypes.c_void_p]
        word = ctypes.POINTER(ctypes.c_uint32)
        functions.serial_run.argtypes = [
            ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint32, word,
            ctypes.c_char_p, ctypes.c_uint32, word,
        ]  # fmt: skip
        functions.serial_run.restype = ctypes.c_uint64
        self._model: int | None = functions.serial_new(divisor)
        self._clock, self._slice = clock, round(wait * clock)
        self._waiting = bytearray()
        self._out = ctypes.create_string_buffer(ROOM)
        self.cycles = 0

    def now(self) -> float:
        """Return the model's time in seconds."""
        return self.cycles / self._clock

    def write(self, data: bytes) -> int:
        """Let bytes wait for the line."""
        self._waiting += data
        return len(data)

    def read(self, size: int = ROOM) -> bytes:
        """Return what the model says next; nothing if it is silent for a while."""
        taken, got = ctypes.c_uint32(), ctypes.c_uint32()
        # Bytes that wait take their time before anybody can answer.
        cycles = self._slice if not self._waiting else 1 << 62
        while True:
            self.cycles += self._library.serial_run(
                self._model, min(cycles, self._slice), bytes(self._waiting), len(self._waiting),
                ctypes.byref(taken), self._out, min(size, ROOM), ctypes.byref(got),
            )  # fmt: skip
            del self._waiting[: taken.value]
            if got.value or not self._waiting:
                return self._out.raw[: got.value]

    def close(self) -> None:
        """Free the model."""
        if self._model is not None:
            self._library.serial_delete(self._model)
            self._model = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Free the model."""
        self.close()


class Terminal:
    """A pseudo-terminal with a model behind it, for a host that opens a serial port.

    Parameters
    ----------
    model : Line
        A `SerialModel`, or something in front of one; clocked by a thread of this process as long
        as the terminal is open.

    Attributes
    ----------
    path : str
        What the host opens.
    """

    def __init__(self, model: Line) -> None:
        self._model = model
        self._ours, theirs = pty.openpty()
        tty.setraw(theirs)
        os.set_blocking(self._ours, False)
        self.path = os.ttyname(theirs)
        self._theirs = theirs  # kept open, or the line hangs up with its last user
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        while not self._closing.is_set():
            try:
                self._model.write(os.read(self._ours, ROOM))
            except BlockingIOError:
                pass
            said = self._model.read(ROOM)
            while said and not self._closing.is_set():
                try:
                    said = said[os.write(self._ours, said) :]
                except BlockingIOError:
                    self._closing.wait(1e-3)

    def close(self) -> None:
        """Unplug it; the model stays."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()
            os.close(self._ours)
            os.close(self._theirs)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Unplug it."""
        self.close()
