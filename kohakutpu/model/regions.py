"""L1A and L1B that keep whole regions, so that a GEMM takes what a FILL made as it is.

A region owns all its entries. Whoever writes or reads something else first has the regions it
touches *settled*: written to the plain entries, which are the truth from then on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kohakutpu.config import LANES
from kohakutpu.model.entries import Entries, Region

Key = tuple[int, int, int, int]  # base, stride, groups, blocks


class RegionEntries(Entries):
    """`Entries` that behave the same, faster."""

    def __init__(self, name: str, count: int, *, poison: bool) -> None:
        self._owner: NDArray[np.int32] = np.full(count, -1, np.int32)
        self._regions: dict[Key, Region] = {}
        self._keys: list[Key] = []  # by the numbers in `_owner`
        super().__init__(name, count, poison=poison)

    def reset(self) -> None:
        """See `Entries.reset`."""
        self._regions.clear()
        self._keys.clear()
        self._owner.fill(-1)
        super().reset()

    def write(self, base: int, stride: int, region: Region) -> None:
        """See `Entries.write`."""
        rows, nk, _ = region.elements.shape
        groups = -(-rows // LANES)
        key = (base, stride, groups, nk)
        if key in self._regions and rows % LANES == 0:
            self._regions[key] = region
            return
        self._settle_window(key)
        if rows % LANES or (groups > 1 and stride < nk):
            super().write(base, stride, region)
        else:
            self._adopt(key, region)

    def read(self, base: int, stride: int, g: int, nk: int) -> Region:
        """See `Entries.read`."""
        key = (base, stride, g, nk)
        region = self._regions.get(key)
        if region is not None:
            return region
        part = self._part(key)
        if part is not None:
            return part
        self._settle_window(key)
        region = super().read(base, stride, g, nk)
        if g == 1 or stride >= nk:
            self._adopt(key, region)
        return region

    def _part(self, key: Key) -> Region | None:
        """Return the region at `key` if it is a part of a larger one."""
        base, stride, g, nk = key
        owner = int(self._owner[base])
        if owner < 0:
            return None
        whole = self._keys[owner]
        first, pitch, groups, blocks = whole
        if g > 1 and groups > 1 and stride != pitch:
            return None
        group, block = divmod(base - first, pitch) if groups > 1 else (0, base - first)
        if (g > 1 and groups == 1) or group + g > groups or block + nk > blocks:
            return None
        region = self._regions[whole]
        return region.part(group * LANES, g * LANES, block, nk)

    def _adopt(self, key: Key, region: Region) -> None:
        if len(self._keys) > 4 * self.count:
            self._renumber()
        self._regions[key] = region
        window = self._window(key)
        self._owner[window] = len(self._keys)
        self._keys.append(key)
        if self.written is not None:
            self.written[window] = True

    def _settle_window(self, key: Key) -> None:
        owners: NDArray[np.int32] = self._owner[self._window(key)]
        if owners.max() >= 0:
            for owner in sorted(set(owners.reshape(-1).tolist())):
                if owner >= 0:
                    touched = self._keys[owner]
                    super().write(touched[0], touched[1], self._regions.pop(touched))
                    self._owner[self._window(touched)] = -1

    def _renumber(self) -> None:
        self._keys = list(self._regions)
        self._owner.fill(-1)
        for number, key in enumerate(self._keys):
            self._owner[self._window(key)] = number

    @staticmethod
    def _window(key: Key) -> slice | NDArray[np.intp]:
        base, stride, g, nk = key
        if g == 1 or stride == nk:
            return slice(base, base + g * nk)
        return (base + np.arange(g) * stride)[:, None] + np.arange(nk)
