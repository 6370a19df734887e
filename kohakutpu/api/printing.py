"""What `L.print` shows: values of a kernel as they are in memory after a run."""

from __future__ import annotations

from textwrap import indent
from typing import Any, TypeVar

import numpy as np

from compiler.pipeline import Print
from kohakutpu.api.array import Array
from kohakutpu.api.convert import FORMATS
from kohakutpu.api.session import Session

T = TypeVar("T", bound=Array)
BLANK = 0xFF  # every byte of what nobody wrote: NaN, and not the one that machines write


def blank(session: Session, shown: Print, kind: type[T]) -> T:
    """Return memory for what will be shown, filled with what no program writes."""
    dtype = FORMATS[shown.dtype]
    values = np.frombuffer(bytes([BLANK]) * dtype.itemsize, dtype)[0]
    return kind.upload(session, np.full(shown.shape, values, dtype), shown.dtype)


def text(shown: Print, values: Array, kernel: str) -> str:
    """Return what a kernel printed, under a line that says where."""
    found = values.numpy()

    def element(x: Any) -> str:
        return "--" if not x.tobytes().strip(bytes([BLANK])) else f"{x:.6g}"

    width = max(map(len, map(element, found.reshape(-1))), default=0)
    elements = np.array2string(found, formatter={"float_kind": lambda x: element(x).rjust(width)})
    extents = " x ".join(map(str, shown.shape)) or "scalar"
    head = f"{shown.loc}: {shown.label} in {kernel}, {extents}, {shown.dtype}"
    return f"{head}\n{indent(elements, '  ')}"
