"""A vector core's L1 or register file: bytes, read and written in windows.

`Storage` is the plain form, what the machine is. `held.HeldStorage` behaves the same and keeps
whole windows as arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kohakutpu.model.faults import Violation
from kohakutpu.model.memory import POISON
from kohakutpu.model.window import Window, end, granules, span

DTYPES = {2: np.dtype("<u2"), 4: np.dtype("<f4")}


class Storage:
    """``count`` granules of ``granule`` bytes.

    Parameters
    ----------
    name : str
        What messages call it.
    cause : str
        The fault of a window that leaves it.
    count, granule : int
        Its size.
    poison : bool
        Reading a granule that nobody has written is a violation.
    """

    def __init__(self, name: str, cause: str, count: int, granule: int, *, poison: bool) -> None:
        self.name = name
        self.cause = cause
        self.count = count
        self.granule = granule
        self.raw: NDArray[np.uint8] = np.zeros(count * granule, np.uint8)
        self.written: NDArray[np.bool_] | None = np.zeros(count, np.bool_) if poison else None

    def reset(self) -> None:
        """Forget everything."""
        self.raw.fill(0 if self.written is None else POISON)
        if self.written is not None:
            self.written.fill(False)

    def check(self, window: Window) -> None:
        """Check that a window lies in the storage.

        Raises
        ------
        Violation
            ``L1_RANGE`` or ``REG_RANGE`` if it does not.
        """
        last = end(window, self.granule)
        if last > self.count:
            raise Violation(
                self.cause,
                f"a window of {window.rows} rows of {window.cols} elements of {window.size} bytes "
                f"at {window.base}, stride {window.stride}, ends at {last}, past the {self.count} "
                f"of {self.name}",
                base=window.base,
                stride=window.stride,
                rows=window.rows,
                cols=window.cols,
                size=window.size,
                end=last,
                capacity=self.count,
            )

    def get(self, window: Window, rows: int | None = None, cols: int | None = None) -> Any:
        """Return the elements of a window: FP16 as their 16 bit codes, FP32 as floats.

        Parameters
        ----------
        window : Window
            Inside the storage.
        rows, cols : int, optional
            How much of it is read as data, from the first row and element on; all by default.

        Returns
        -------
        ndarray
            ``[rows, cols]`` of the window, not to be written to, valid until the next `put`.

        Raises
        ------
        Violation
            ``UNWRITTEN`` under poison.
        """
        if self.written is not None:
            self._require_written(window, rows, cols)
        return self._view(window, window.cols)

    def put(self, window: Window, values: Any) -> None:
        """Write a window; what is left of the last granule of a row becomes zero.

        Parameters
        ----------
        window : Window
            Inside the storage.
        values : ndarray
            ``[rows, cols]``, of the dtype that `get` returns; the storage may keep it.
        """
        width = span(window, self.granule)
        view = self._view(window, width * self.granule // window.size)
        if window.stride < width and window.rows > 1:  # rows overlap: the last one written stays
            for row, elements in zip(view, values, strict=True):
                row[: window.cols] = elements
                row[window.cols :] = 0
        else:
            view[:, : window.cols] = values
            view[:, window.cols :] = 0
        self._note(window)

    def _view(self, window: Window, cols: int) -> NDArray[Any]:
        dtype = DTYPES[window.size]
        return np.ndarray(
            (window.rows, cols), dtype, buffer=self.raw, offset=window.base * self.granule,
            strides=(window.stride * self.granule, window.size),
        )  # fmt: skip

    def _note(self, window: Window) -> None:
        if self.written is not None:
            self.written[granules(window, self.granule)] = True

    def _require_written(self, window: Window, rows: int | None, cols: int | None) -> None:
        assert self.written is not None
        part = Window(
            window.base, window.stride, window.rows if rows is None else rows,
            window.cols if cols is None else cols, window.size,
        )  # fmt: skip
        used = granules(part, self.granule)
        have = self.written[used]
        if not have.all():
            bad = int(used[~have][0])
            what = "word" if self.name == "L1" else "beat"
            raise Violation(
                "UNWRITTEN",
                f"{what} {bad} of {self.name} is read as data and nobody has written it",
                buffer=self.name,
                index=bad,
            )
