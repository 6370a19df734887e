"""An accumulator that keeps whole tiles, so that a GEMM adds to a matrix as it is.

A tile owns all its sub-tiles. Whoever writes or reads another tile that overlaps it first has it
*settled*: written to the plain sub-tiles, which are the truth from then on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kohakutpu.model.accumulator import Accumulator

Key = tuple[int, int, int]  # base, gm, gn


class TileAccumulator(Accumulator):
    """An `Accumulator` that behaves the same, faster."""

    def __init__(self, count: int, *, poison: bool) -> None:
        self._tiles: dict[Key, NDArray[np.float32]] = {}
        super().__init__(count, poison=poison)

    def reset(self) -> None:
        """See `Accumulator.reset`."""
        self._tiles.clear()
        super().reset()

    def read(
        self, base: int, gm: int, gn: int, down: int | None = None, across: int | None = None
    ) -> NDArray[np.float32]:
        """See `Accumulator.read`; what it returns never changes."""
        tile = self._tiles.get((base, gm, gn))
        if tile is not None:
            return tile
        self._settle(base, base + gm * gn)
        return super().read(base, gm, gn, down, across).copy()

    def write(self, base: int, gm: int, gn: int, tile: NDArray[np.float32]) -> None:
        """See `Accumulator.write`; keeps `tile`, which nobody may change afterwards."""
        key = (base, gm, gn)
        if key not in self._tiles:
            self._settle(base, base + gm * gn)
            if self.written is not None:
                self.written[base : base + gm * gn] = True
        self._tiles[key] = tile

    def _settle(self, first: int, last: int) -> None:
        touched = [k for k in self._tiles if k[0] < last and first < k[0] + k[1] * k[2]]
        for key in touched:
            super().write(*key, self._tiles.pop(key))
