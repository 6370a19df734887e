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

from kohakutpu.model.deferred import WIDEN, Deferred
from kohakutpu.model.storage import Storage
from kohakutpu.model.tables import Tables, Tabulated
from kohakutpu.model.window import Window, disjoint, end, span

HELD = 24  # windows; more than a kernel's temporaries and buffers


Value = NDArray[Any] | Tabulated | Deferred


class Held:
    """A value, whether the plain bytes lack it, and whether no other window overlaps it."""

    __slots__ = ("ahead", "alone", "first", "last", "value", "wide")

    def __init__(self, first: int, last: int, value: Value, *, ahead: bool, alone: bool) -> None:
        self.wide: Deferred | None = None
        self.first = first
        self.last = last
        self.value = value
        self.ahead = ahead
        self.alone = alone


class HeldStorage(Storage):
    """`Storage` that behaves the same, faster.

    FP16 windows are held as `Tabulated` or as deferred codes, FP32 windows as arrays, `Tabulated`
    or deferred.
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

    def peek(self, window: Window) -> Value | None:
        """Return what is held under just this window, if something is."""
        held = self._held.get(window)
        return None if held is None else held.value

    def source(self, window: Window) -> Value:
        """Return a window as an operand: FP32 values, held for the next reader."""
        held = self._held.get(window)
        if held is not None:
            value = held.value
            if window.size == 4 or type(value) is not Deferred:
                return value
            if value.value is not None:
                held.value = Tabulated(self._tables.identity, value.value)
                return held.value
            if held.wide is None:
                held.wide = Deferred(WIDEN, None, (value,), value.shape)
            return held.wide
        touched = self._settle(window)
        found = super().get(window).copy()
        value = Tabulated(self._tables.identity, found) if window.size == 2 else found
        for other in touched:
            other.alone = False
        self._hold(window, value, ahead=False, alone=not touched and not self._overlapping(window))
        return value

    def put(self, window: Window, values: Any) -> None:
        """See `Storage.put`; keeps `values`, which nobody may change afterwards."""
        held = self._held.get(window)
        if held is None or not held.alone:
            self._drop(window)
            if self._overlapping(window):
                super().put(window, _plain(values, window.size))
                return
            self._note(window)
        if window.size == 2 and type(values) is np.ndarray:
            values = Tabulated(self._tables.identity, values)
        if held is None or not held.alone:
            self._hold(window, values, ahead=True, alone=True)
        else:
            held.value = values
            held.wide = None
            held.ahead = True

    def _hold(self, window: Window, value: Value, *, ahead: bool, alone: bool) -> None:
        if len(self._held) >= HELD:
            for old, held in self._held.items():
                if held.ahead:
                    super().put(old, _plain(held.value, old.size))
            self._held.clear()
        last = end(window, self.granule)
        self._held[window] = Held(window.base, last, value, ahead=ahead, alone=alone)

    def _overlapping(self, window: Window) -> bool:
        """Tell whether rows of the window overlap: later ones then show in earlier ones."""
        return window.rows > 1 and window.stride < span(window, self.granule)

    def _touched(self, window: Window) -> list[tuple[Window, Held]]:
        first, last = window.base, end(window, self.granule)
        return [
            (other, held)
            for other, held in self._held.items()
            if held.first < last and first < held.last and not disjoint(window, other, self.granule)
        ]

    def _settle(self, window: Window) -> list[Held]:
        """Bring the plain bytes of a window up to date; return what else holds some of it."""
        touched = self._touched(window)
        for other, held in touched:
            if held.ahead:
                super().put(other, _plain(held.value, other.size))
                held.ahead = False
        return [held for _, held in touched]

    def _drop(self, window: Window) -> None:
        """Let go of what a write to `window` changes; what it does not cover is settled first."""
        width = span(window, self.granule)
        for other, held in self._touched(window):
            if held.ahead and (
                other[:3] != window[:3] or span(other, self.granule) > width
            ):  # fmt: skip
                super().put(other, _plain(held.value, other.size))
            del self._held[other]


def _plain(value: Value, size: int) -> NDArray[Any]:
    if type(value) is Deferred:
        return value.force()
    if type(value) is Tabulated:
        return value.halves() if size == 2 else value.values
    return value
