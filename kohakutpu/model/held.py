"""Vector storage that keeps whole windows as arrays, and values that are not worked out yet.

What an instruction writes is *held*: kept as it came, under its window. A reader of the same
window gets it back. Before anybody touches some of it through another window it is settled:
written to the plain bytes, which are the truth from then on. A window that was only read is held
too, since it need not be copied and widened again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kohakutpu.model.storage import Storage
from kohakutpu.model.tables import Tables, Tabulated
from kohakutpu.model.window import Window, disjoint, end, span

HELD = 24  # windows; more than a kernel's temporaries and buffers


class Held:
    """A value and whether the plain bytes lack it."""

    __slots__ = ("ahead", "first", "last", "value")

    def __init__(self, first: int, last: int, value: NDArray[Any] | Tabulated, ahead: bool) -> None:
        self.first = first
        self.last = last
        self.value = value
        self.ahead = ahead


class HeldStorage(Storage):
    """`Storage` that behaves the same, faster.

    FP16 windows are held as `Tabulated`, FP32 windows as arrays or `Tabulated`.
    """

    def __init__(
        self, tables: Tables, name: str, cause: str, count: int, granule: int, *, poison: bool
    ) -> None:  # fmt: skip
        self._held: dict[Window, Held] = {}
        self._tables = tables
        super().__init__(name, cause, count, granule, poison=poison)

    def reset(self) -> None:
        """See `Storage.reset`."""
        self._held.clear()
        super().reset()

    def get(self, window: Window, rows: int | None = None, cols: int | None = None) -> Any:
        """See `Storage.get`; what it returns never changes."""
        held = self._held.get(window)
        if held is not None:
            return _plain(held.value, window.size)
        self._settle(window)
        return super().get(window, rows, cols).copy()  # somebody may hold it

    def source(self, window: Window) -> NDArray[np.float32] | Tabulated:
        """Return a window as an operand: FP32 values, held for the next reader."""
        held = self._held.get(window)
        if held is None:
            self._settle(window)
            found = super().get(window).copy()
            value = Tabulated(self._tables.identity, found) if window.size == 2 else found
            self._hold(window, value, ahead=False)
            return value
        return held.value

    def put(self, window: Window, values: Any) -> None:
        """See `Storage.put`; keeps `values`, which nobody may change afterwards."""
        if window.stride < span(window, self.granule) and window.rows > 1:
            self._drop(window)
            super().put(window, values)
            return
        if window.size == 2 and not isinstance(values, Tabulated):
            values = Tabulated(self._tables.identity, values)
        self._drop(window)
        self._hold(window, values, ahead=True)
        self._note(window)

    def _hold(self, window: Window, value: NDArray[Any] | Tabulated, *, ahead: bool) -> None:
        if len(self._held) >= HELD:
            for old, held in self._held.items():
                if held.ahead:
                    super().put(old, _plain(held.value, old.size))
            self._held.clear()
        self._held[window] = Held(window.base, end(window, self.granule), value, ahead)

    def _touched(self, window: Window) -> list[tuple[Window, Held]]:
        first, last = window.base, end(window, self.granule)
        return [
            (other, held)
            for other, held in self._held.items()
            if held.first < last
            and first < held.last
            and not disjoint(window, other, self.granule)
        ]

    def _settle(self, window: Window) -> None:
        """Bring the plain bytes of a window up to date."""
        for other, held in self._touched(window):
            if held.ahead:
                super().put(other, _plain(held.value, other.size))
                held.ahead = False

    def _drop(self, window: Window) -> None:
        """Let go of what a write to `window` changes; what it does not cover is settled first."""
        width = span(window, self.granule)
        for other, held in self._touched(window):
            if held.ahead and (
                other[:3] != window[:3] or span(other, self.granule) > width
            ):  # fmt: skip
                super().put(other, _plain(held.value, other.size))
            del self._held[other]


def _plain(value: NDArray[Any] | Tabulated, size: int) -> NDArray[Any]:
    if isinstance(value, Tabulated):
        return value.halves() if size == 2 else value.values
    return value
