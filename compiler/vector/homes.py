"""Places for values: what a window takes, and the pools that windows come from."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.vector.context import TileWindow
from compiler.vector.geometry import words
from kohakuaccel.errors import InternalError
from kohakuaccel.source import Location


class ShortageError(Exception):
    """Registers do not hold what has to lie there; ``needed`` beats would do."""

    def __init__(self, what: str, needed: int, loc: Location) -> None:
        super().__init__(what)
        self.what = what
        self.needed = needed
        self.loc = loc


@dataclass(frozen=True, slots=True)
class Home:
    """Where a value lies.

    ``region`` is ``"registers"`` (``offset`` in beats), or in L1 words ``"ring"`` (an offset in a
    place of ring number ``ring``), ``"resident"``, ``"temporary"``, or ``"tile"`` (``tile`` is its
    window). ``"state"`` is an absolute place, of beats or words as its ``kind`` says. ``stride`` is
    from row to row, ``size`` all it takes.
    """

    region: str
    kind: str
    offset: int
    stride: int
    size: int
    ring: int = 0
    tile: TileWindow | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """What values of ``rows`` rows take on a machine with ``lanes`` lanes.

    Extents are those of a value; ``cols`` is how many elements a row has, if it varies along rows.
    """

    rows: int
    lanes: int

    def dims(self, extent: str, cols: int) -> tuple[int, int]:
        """Return the rows and columns of an EXEC that runs over ``extent``."""
        match extent:
            case "full":
                return self.rows, cols
            case "column":
                return self.rows, 1
            case "row":
                return 1, self.rows
            case "channel":
                return 1, cols
            case "scalar":
                return 1, 1
            case _:
                raise InternalError(f"no block has the extent {extent!r}")

    def row_beats(self, extent: str, cols: int) -> int:
        """Return the beats of one row of a register window."""
        return -(-self.dims(extent, cols)[1] // self.lanes)

    def register(self, extent: str, cols: int) -> tuple[int, int]:
        """Return stride and size, in beats, of a register window."""
        rows, beats = self.dims(extent, cols)[0], self.row_beats(extent, cols)
        return (0 if extent == "channel" else beats), rows * beats

    def l1(self, extent: str, cols: int, dtype: str) -> tuple[int, int]:
        """Return stride and size, in words, of an L1 window."""
        rows, cols = self.dims(extent, cols)
        row = words(cols, dtype)
        return (0 if extent == "channel" else row), rows * row


class Pool:
    """First fit in ``limit`` granules (None: as many as it takes); ``peak`` is how many it took."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._used: list[tuple[int, int]] = []  # (first, end), in order
        self.peak = 0

    def take(self, size: int) -> int | None:
        """Return the first of ``size`` free granules in a row, ``None`` if there are none."""
        at = 0
        for i, (first, end) in enumerate([*self._used, (1 << 62, 0)]):
            if first - at >= size:
                if self._limit is not None and at + size > self._limit:
                    return None
                self._used.insert(i, (at, at + size))
                self.peak = max(self.peak, at + size)
                return at
            at = end
        return None

    def give_back(self, first: int) -> None:
        """Free what :meth:`take` returned."""
        self._used = [used for used in self._used if used[0] != first]
