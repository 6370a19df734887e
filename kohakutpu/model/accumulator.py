"""The accumulator of a cluster: sub-tiles of 4x4 FP32.

`Accumulator` is the plain form; `tiles.TileAccumulator` behaves the same and keeps whole tiles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kohakutpu.config import LANES
from kohakutpu.model.faults import Violation


class Accumulator:
    """``count`` sub-tiles.

    Parameters
    ----------
    count : int
        Its size.
    poison : bool
        Reading a sub-tile that nobody has written is a violation.
    """

    def __init__(self, count: int, *, poison: bool) -> None:
        self.count = count
        self.raw: NDArray[np.float32] = np.zeros((count, LANES, LANES), np.float32)
        self.written: NDArray[np.bool_] | None = np.zeros(count, np.bool_) if poison else None

    def reset(self) -> None:
        """Forget everything."""
        self.raw.fill(0 if self.written is None else np.nan)
        if self.written is not None:
            self.written.fill(False)

    def check(self, base: int, gm: int, gn: int) -> None:
        """Check that a tile lies in the accumulator.

        Raises
        ------
        Violation
            ``ACC_RANGE`` if it does not.
        """
        if base + gm * gn > self.count:
            raise Violation(
                "ACC_RANGE",
                f"a tile of {gm} x {gn} sub-tiles at {base} ends at {base + gm * gn}, past the "
                f"{self.count} of the accumulator",
                base=base,
                gm=gm,
                gn=gn,
                end=base + gm * gn,
                capacity=self.count,
            )

    def read(
        self, base: int, gm: int, gn: int, down: int | None = None, across: int | None = None
    ) -> NDArray[np.float32]:
        """Return a tile, ``[4 * gm, 4 * gn]``, not to be written to.

        Parameters
        ----------
        base, gm, gn : int
            The tile, inside the accumulator.
        down, across : int, optional
            So many sub-tiles of it are read as data; all by default.

        Raises
        ------
        Violation
            ``UNWRITTEN`` under poison.
        """
        if self.written is not None:
            have = self.written[base : base + gm * gn].reshape(gm, gn)[:down, :across]
            if not have.all():
                g, h = (int(i[0]) for i in np.nonzero(~have))
                raise Violation(
                    "UNWRITTEN",
                    f"sub-tile {base + g * gn + h} of the accumulator is read as data and nobody "
                    "has written it",
                    buffer="accumulator",
                    index=base + g * gn + h,
                )
        tile = self.raw[base : base + gm * gn].reshape(gm, gn, LANES, LANES)
        return tile.transpose(0, 2, 1, 3).reshape(gm * LANES, gn * LANES)

    def write(self, base: int, gm: int, gn: int, tile: NDArray[np.float32]) -> None:
        """Write a tile, ``[4 * gm, 4 * gn]``; the accumulator may keep the array."""
        parts = tile.reshape(gm, LANES, gn, LANES).transpose(0, 2, 1, 3)
        self.raw[base : base + gm * gn].reshape(gm, gn, LANES, LANES)[:] = parts
        if self.written is not None:
            self.written[base : base + gm * gn] = True
