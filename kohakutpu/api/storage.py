"""A tensor's memory on a device, freed when nothing references it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from kohakutpu.api.convert import row_bytes

if TYPE_CHECKING:
    from kohakutpu.api.session import Session


class Storage:
    """Memory for a tensor of a shape and format; no memory at all if it has no elements.

    Attributes
    ----------
    session : Session
        Where it lies.
    nbytes : int
        Bytes of the rows, padding included.
    """

    __slots__ = ("__weakref__", "_address", "nbytes", "session")

    def __init__(self, session: Session, shape: tuple[int, ...], stored: str) -> None:
        rows, data, stride = row_bytes(shape, stored)
        self.session = session
        self.nbytes = rows * stride
        self._address: int | None = None
        if self.nbytes:
            runtime = session.runtime
            block = session.allocate(self.nbytes, f"tensor {shape} {stored}")
            weakref.finalize(self, runtime.release, block).atexit = False
            self._address = block.address
            runtime.device.renew(block.address, rows, data, stride)

    @property
    def address(self) -> int:
        """Where it starts; only memory that exists has one."""
        assert self._address is not None, "an empty tensor has no address"
        return self._address
