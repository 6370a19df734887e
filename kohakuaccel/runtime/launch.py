"""One device at work: who holds its memory, which programs lie there, and how an image is run.

Blocks are freed through `Runtime.release`, which may be called from a finalizer at any moment: it
only notes the block, and the next call that looks at the memory takes it back.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kohakuaccel.errors import CallError
from kohakuaccel.image import WORD_BYTES, Image, OperandInfo
from kohakuaccel.runtime.arena import Arena, Block, OutOfMemory
from kohakuaccel.runtime.device import Bytes, Device, Program, Report, Totals
from kohakuaccel.source import caller

Layout = tuple[int, int, int]  # rows, bytes of data in each, bytes from row to row
Watcher = Callable[[Image, Report], None]
Patch = Callable[[Image, Sequence[int]], list[bytes]]
RESIDENT_IMAGES = 256  # programs that stay in device memory, least recently run ones go first


@dataclass(eq=False, slots=True)
class Resident:
    """An image whose constants and programs lie in device memory.

    ``data`` is the address of the constants, ``addresses`` of each unit's program, ``bases`` the
    operand addresses that are patched into the words there now.
    """

    image: Image
    block: Block
    data: int
    addresses: tuple[int, ...]
    bases: tuple[int, ...] | None = None


class Runtime:
    """A device, its memory and its counters.

    Parameters
    ----------
    device : Device
        What runs.
    patch : callable
        The words of each unit of an image for given operand addresses.

    Attributes
    ----------
    watchers : list of callable
        Called after every run with its image and its report.
    """

    def __init__(self, device: Device, patch: Patch) -> None:
        self.device = device
        self.arena = Arena(device.memory_bytes, device.granule)
        self.totals = Totals()
        self.closed = False
        self.watchers: list[Watcher] = []
        self._patch = patch
        self._released: deque[Block] = deque()
        self._residents: OrderedDict[int, Resident] = OrderedDict()
        self._lock = threading.RLock()  # a device does one thing at a time

    # ---------------------------------------------------------------- memory

    def allocate(self, nbytes: int, owner: str) -> Block:
        """Give out memory; programs that are not running make room if they must.

        Raises
        ------
        OutOfMemory
            If there is not enough even so; the message says who holds what.
        """
        with self._lock:
            self.require_open()
            self.collect()
            try:
                return self.arena.allocate(nbytes, owner)
            except OutOfMemory:
                if not self._residents:
                    raise
            self.evict()
            return self.arena.allocate(nbytes, owner)

    def release(self, block: Block) -> None:
        """Give a block back; safe in a finalizer, effective with the next `collect`."""
        self._released.append(block)

    def collect(self) -> None:
        """Free what was released."""
        with self._lock:
            while self._released:
                self.arena.free(self._released.popleft())

    def evict(self) -> None:
        """Drop every program and its constants from device memory; they are written again."""
        with self._lock:
            while self._residents:
                self.arena.free(self._residents.popitem()[1].block)

    @property
    def resident_bytes(self) -> int:
        """Bytes that programs and their constants take in device memory."""
        return sum(resident.block.nbytes for resident in self._residents.values())

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes to the device."""
        with self._lock:
            self.require_open()
            self.device.write(address, data)

    def read(self, address: int, nbytes: int) -> Bytes:
        """Return bytes of the device's memory, valid until the next call."""
        with self._lock:
            self.require_open()
            return self.device.read(address, nbytes)

    # --------------------------------------------------------------- running

    def launch(
        self, image: Image, operands: Sequence[int], layouts: Sequence[Layout] = ()
    ) -> Report:
        """Run an image to its end.

        Whatever ends the run early, the device is reset, temporaries are freed, and programs are
        written again before their next run.

        Parameters
        ----------
        image : Image
            Compiled for this device's machine.
        operands : sequence of int
            Byte addresses of its ``in`` and ``out`` operands, in the image's order.
        layouts : sequence of (int, int, int), optional
            Rows, bytes of data in a row and bytes from row to row of each temporary, in the image's
            order; left out, all of each is data.

        Raises
        ------
        CallError
            If the image is for another configuration, or the device is closed.
        OutOfMemory
            If programs or temporaries do not fit.
        DeviceFault
            If the machine stopped.
        """
        with self._lock:
            self.require_open()
            if image.machine_hash != self.device.machine_hash:
                raise CallError(
                    f"the image is for a machine with hash {image.machine_hash}, and the device "
                    f"{self.device.name} has {self.device.machine_hash}",
                    loc=caller(),
                    fix="compile it for this device's machine",
                )
            temporaries: list[Block] = []
            try:
                scratch = [info for info in image.operands if info.kind == "temp"]
                for place, info in enumerate(scratch):
                    layout = layouts[place] if layouts else (1, info.nbytes, info.nbytes)
                    temporaries.append(self._temporary(info, layout))
                resident = self._resident(image)
                report = self._run(resident, self._bases(resident, operands, temporaries))
            finally:
                for block in temporaries:
                    self.arena.free(block)
            self.totals.add(report)
            for watch in self.watchers:
                watch(image, report)
            return report

    def _temporary(self, info: OperandInfo, layout: Layout) -> Block:
        block = self.allocate(max(info.nbytes, 1), f"temporary {info.name}")
        self.device.renew(block.address, *layout)
        return block

    def _bases(
        self, resident: Resident, operands: Sequence[int], temporaries: Sequence[Block]
    ) -> tuple[int, ...]:
        """Return the address of every operand of the image, in its order."""
        given = iter(operands)
        scratch = iter(temporaries)
        bases: list[int] = []
        for info in resident.image.operands:
            if info.kind == "temp":
                bases.append(next(scratch).address)
            elif info.kind == "data":
                bases.append(resident.data)
            else:
                bases.append(next(given))
        return tuple(bases)

    def _run(self, resident: Resident, bases: tuple[int, ...]) -> Report:
        try:
            if resident.bases != bases:
                resident.bases = None
                for address, words in zip(
                    resident.addresses, self._patch(resident.image, bases), strict=True
                ):
                    self.device.write(address, words)
                resident.bases = bases
            self.device.load(
                [
                    Program(unit.node, unit.kind, address, len(unit.words) // WORD_BYTES)
                    for unit, address in zip(resident.image.units, resident.addresses, strict=True)
                ]
            )
            return self.device.run()
        except BaseException:
            # Also Ctrl-C. A program gone wrong may have written anywhere, programs included.
            self.evict()
            self.device.reset()
            raise

    def _resident(self, image: Image) -> Resident:
        key = id(image)  # the entry keeps the image alive, so the id is its own
        known = self._residents.get(key)
        if known is not None:
            self._residents.move_to_end(key)
            return known
        if len(self._residents) >= RESIDENT_IMAGES:
            self.arena.free(self._residents.popitem(last=False)[1].block)
        sizes = [len(image.data), *(len(unit.words) for unit in image.units)]
        name = image.meta.get("kernel", "an image")
        block = self.allocate(max(sum(sizes), 1), f"program of {name}")
        starts: list[int] = []
        address = block.address
        for size in sizes:
            starts.append(address)
            address += size
        resident = Resident(image, block, starts[0], tuple(starts[1:]))
        if image.data:
            self.device.write(resident.data, image.data)
        self._residents[key] = resident
        return resident

    def close(self) -> None:
        """Close the device; tensors on it can no longer be used."""
        if not self.closed:
            self.closed = True
            self._residents.clear()
            self.device.close()

    def require_open(self) -> None:
        """Check that the device has not been closed.

        Raises
        ------
        CallError
            If it has.
        """
        if self.closed:
            raise CallError(
                f"the device {self.device.name} is closed, and its tensors with it",
                loc=caller(),
                fix="make new tensors on an open device",
            )
