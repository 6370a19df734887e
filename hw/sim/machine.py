"""A whole machine, simulated: registers, memory by pointer, runs with Python asleep."""

import ctypes
import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hw.sim.model import Variant, build
from kohakutpu.config import WORD_BYTES, Machine

__all__ = ["BusError", "Ram", "SimulatedMachine", "SimulationError", "Waves", "build"]

NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which `mmap` does not name before Python 3.13


class Ram(ctypes.Structure):
    """Memory and how it behaves: the structure of ``ram.h``."""

    _fields_ = (
        ("bytes", ctypes.c_void_p),
        ("words", ctypes.c_uint64),
        ("error_first", ctypes.c_uint64),
        ("error_end", ctypes.c_uint64),
        ("seed", ctypes.c_int32),
        ("latency", ctypes.c_int32),
    )


class BusError(RuntimeError):
    """A register transfer was answered with an error, or not at all."""


class SimulationError(RuntimeError):
    """An assertion in the hardware failed; its text is on standard output."""


@dataclass(frozen=True)
class Waves:
    """What is recorded, as VCD.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    scope : str
        Below which module, with dots: ``top.top.unit_0``. Everything by default.
    first, end : int
        Cycles since the machine was made: from the first up to, and without, the end.
    """

    path: Path
    scope: str = ""
    first: int = 0
    end: int = 1 << 62


def allocate(words: int) -> NDArray[np.uint8]:
    """Return `words` words of zeros that take memory only where they are written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, words * WORD_BYTES, flags=flags), np.uint8)


class SimulatedMachine:
    """One machine in a simulator.

    Parameters
    ----------
    machine : Machine
        Which.
    library : pathlib.Path, optional
        The built model, from `build`; built now by default.
    memory_words : int, optional
        Words of memory; as configured by default.
    stalls : int
        Seed of random stalls and latencies on every AXI channel; 0 for none.
    latency : int
        Cycles of memory from request to answer, at least.
    errors : tuple of (int, int)
        First word, and the one after the last, of those whose access fails.
    waves : Waves, optional
        To record; the default library is then one that can.

    Attributes
    ----------
    memory : ndarray of uint8
        What host and machine both see.

    Raises
    ------
    hw.sim.toolchain.ToolError
        If the model must be built and cannot.
    OSError
        If the file for waves cannot be made.
    """

    def __init__(
        self,
        machine: Machine,
        library: Path | None = None,
        *,
        memory_words: int | None = None,
        stalls: int = 0,
        latency: int = 16,
        errors: tuple[int, int] = (0, 0),
        waves: Waves | None = None,
    ) -> None:
        self._model: int | None = None
        if library is None:
            library = build(machine, variant=Variant.WAVES if waves else Variant.FAST)
        words = machine.dram_words if memory_words is None else memory_words
        self.memory = allocate(words)
        self._ram = Ram(self.memory.ctypes.data, words, *errors, stalls, latency)
        self._functions = _functions(library)
        self._model = self._functions.model_new()
        if waves and not self._functions.model_waves(
            self._model, str(waves.path).encode(), waves.scope.encode(), waves.first, waves.end
        ):
            self.close()
            raise OSError(None, "cannot record waves", str(waves.path))
        self.reset()

    def reset(self) -> None:
        """Pull the reset of everything; memory stays."""
        self._functions.model_reset(self._model, ctypes.byref(self._ram))

    def write(self, register: int, value: int) -> None:
        """Write a register.

        Raises
        ------
        BusError
            If it is answered with an error.
        """
        response = self._functions.model_write(
            self._model, ctypes.byref(self._ram), register, value
        )
        if response:
            raise BusError(f"writing {value:#x} to {register:#x}: {_said(response)}")

    def read(self, register: int) -> int:
        """Read a register.

        Raises
        ------
        BusError
            If it is answered with an error.
        """
        value = ctypes.c_uint32()
        response = self._functions.model_read(
            self._model, ctypes.byref(self._ram), register, ctypes.byref(value)
        )
        if response:
            raise BusError(f"reading {register:#x}: {_said(response)}")
        return value.value

    def run(self, cycles: int) -> int:
        """Clock until the interrupt, or `cycles` times, or for 50 ms; return how many times.

        Raises
        ------
        SimulationError
            If an assertion fails.
        """
        done = self._functions.model_run(self._model, ctypes.byref(self._ram), cycles)
        if self._functions.model_failed(self._model):
            raise SimulationError("an assertion in the hardware failed; see above")
        return done

    @property
    def memory_words(self) -> int:
        """Words of memory."""
        return self.memory.size // WORD_BYTES

    def store(self, address: int, data: bytes) -> None:
        """Write memory from a byte address."""
        self.memory[address : address + len(data)] = np.frombuffer(data, np.uint8)

    @property
    def instructions(self) -> int:
        """Instructions that the units have taken in this run, so far."""
        return self._functions.model_instructions(self._model)

    @property
    def interrupt(self) -> bool:
        """Whether the run is over."""
        return bool(self._functions.model_interrupt(self._model))

    def close(self) -> None:
        """Free the model and end its waves; nothing else may be called afterwards."""
        if self._model is not None:
            self._functions.model_delete(self._model)
            self._model = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Free the model."""
        self.close()


def _said(response: int) -> str:
    return "no answer" if response < 0 else f"response {response}"


def _functions(library: Path) -> ctypes.CDLL:
    functions = ctypes.CDLL(str(library))
    model, ram = ctypes.c_void_p, ctypes.POINTER(Ram)
    text, number = ctypes.c_char_p, ctypes.c_uint64
    functions.model_new.restype = model
    functions.model_delete.argtypes = [model]
    functions.model_waves.argtypes = [model, text, text, number, number]
    functions.model_reset.argtypes = [model, ram]
    functions.model_run.argtypes = [model, ram, number]
    functions.model_run.restype = number
    functions.model_instructions.argtypes = [model]
    functions.model_instructions.restype = number
    functions.model_interrupt.argtypes = [model]
    functions.model_failed.argtypes = [model]
    functions.model_write.argtypes = [model, ram, ctypes.c_uint32, ctypes.c_uint32]
    functions.model_read.argtypes = [model, ram, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)]
    return functions
