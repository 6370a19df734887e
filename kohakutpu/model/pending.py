"""A memory that takes stores whose data is still to be worked out.

They are worked out together (see `deferred`) before anybody looks at what they write, and at
the end of a run at the latest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kohakutpu.config import QUARTER_BYTES, QUARTERS_PER_WORD, WORD_BYTES
from kohakutpu.model.deferred import ELEMENTS, Deferred, Expression, Step, compute
from kohakutpu.model.memory import Memory

LIMIT = 1 << 20  # elements that wait; their operands wait with them


class Store(NamedTuple):
    """A store that waits: where to, how much of the value, and what that is computed of."""

    quarter: int
    stride: int
    rows: int
    cols: int
    size: int
    leaves: list[NDArray[Any]]


class PendingMemory(Memory):
    """`Memory` that behaves the same, faster."""

    def __init__(self, words: int, poison: bool = False) -> None:
        super().__init__(words, poison)
        self._waiting: dict[tuple[Step, ...], list[Store]] = {}
        self._elements = 0
        # Quarters that a waiting store writes, and the bounds of all of them.
        self._claimed: NDArray[np.bool_] = np.zeros(self.nbytes // QUARTER_BYTES, np.bool_)
        self._first = self._last = 0

    @property
    def waits(self) -> bool:
        """Something waits."""
        return self._elements > 0

    def store_later(
        self, quarter: int, stride: int, value: Deferred, rows: int, cols: int, size: int
    ) -> None:  # fmt: skip
        """Write ``[rows, cols]`` of a value, whole quarters, some time before they are read.

        Raises
        ------
        Violation
            ``MEMORY`` past the end of memory.
        """
        nbytes = cols * size
        if stride * WORD_BYTES < nbytes and rows > 1:  # rows overlap
            self.store(quarter, stride, value.force()[:rows, :cols])
            return
        self._rows(quarter, rows, stride, nbytes)
        self._settle(quarter, rows, stride, nbytes)
        self.note(quarter, rows, stride, nbytes)
        self._claims(quarter, rows, stride, nbytes)[:] = True
        last = quarter + (rows - 1) * stride * QUARTERS_PER_WORD + nbytes // QUARTER_BYTES
        if self._elements == 0:
            self._first, self._last = quarter, last
        else:
            self._first, self._last = min(self._first, quarter), max(self._last, last)
        expression = Expression(value)
        store = Store(quarter, stride, rows, cols, size, expression.leaves)
        self._waiting.setdefault(expression.steps, []).append(store)
        self._elements += value.shape[0] * value.shape[1]
        if self._elements >= LIMIT:
            self.flush()

    def load(self, quarter: int, rows: int, stride: int, nbytes: int) -> NDArray[np.uint8]:
        """See `Memory.load`."""
        if self._elements:
            self._rows(quarter, rows, stride, nbytes)
            self._settle(quarter, rows, stride, nbytes)
        return super().load(quarter, rows, stride, nbytes)

    def store(self, quarter: int, stride: int, data: NDArray[Any]) -> None:
        """See `Memory.store`."""
        if self._elements:
            rows, nbytes = data.shape[0], data.shape[1] * data.itemsize
            self._rows(quarter, rows, stride, nbytes)
            self._settle(quarter, rows, stride, nbytes)
        super().store(quarter, stride, data)

    def flush(self) -> None:
        """Do all that waits."""
        waiting, self._waiting = self._waiting, {}
        self._elements = 0
        for steps, stores in waiting.items():
            rows, cols = steps[-1][3]
            together = max(1, ELEMENTS // (rows * cols))
            for start in range(0, len(stores), together):
                self._do(steps, stores[start : start + together])

    def _do(self, steps: tuple[Step, ...], stores: list[Store]) -> None:
        leaves = list(zip(*(store.leaves for store in stores), strict=True))
        values = compute(steps, leaves, len(stores))[-1]
        for store, value in zip(stores, values, strict=True):
            nbytes = store.cols * store.size
            view = self._rows(store.quarter, store.rows, store.stride, nbytes)
            view.view(value.dtype)[:] = value[: store.rows, : store.cols]
            self._claims(store.quarter, store.rows, store.stride, nbytes)[:] = False

    def _settle(self, quarter: int, rows: int, stride: int, nbytes: int) -> None:
        """Do what waits if some of it concerns these rows."""
        last = quarter + (rows - 1) * stride * QUARTERS_PER_WORD - (-nbytes // QUARTER_BYTES)
        if (
            self._elements
            and quarter < self._last
            and self._first < last
            and self._claims(quarter, rows, stride, nbytes).any()
        ):
            self.flush()

    def _claims(self, quarter: int, rows: int, stride: int, nbytes: int) -> NDArray[np.bool_]:
        """Return a view of what is claimed of some rows."""
        return np.ndarray(
            (rows, -(-nbytes // QUARTER_BYTES)), np.bool_, buffer=self._claimed, offset=quarter,
            strides=(stride * QUARTERS_PER_WORD, 1),
        )  # fmt: skip
