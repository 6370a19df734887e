"""What has no number while a kernel is traced refuses to act as one, with the fix."""

from __future__ import annotations

import sys
import threading
from typing import Any, NoReturn

from kohakuaccel.errors import KernelError
from kohakuaccel.source import caller, is_internal

_COMPARE = "choose by a keyword-only knob, or split the loop so that each part needs no comparison"


class _Tracing(threading.local):
    active = False


tracing = _Tracing()
"""Per thread: whether a kernel function is running, so that its comparisons can be refused."""


class Unknown:
    """Mixin of symbolic objects: every way Python has of asking for a number is an error."""

    __slots__ = ()
    compares = False
    """Whether a comparison with it is a value of the kernel, whatever stands on the left."""

    def _describe(self) -> str:
        """Return how to name this object in a message."""
        return f"`{self}`"

    def _refuse(self, use: str, fix: str) -> NoReturn:
        raise KernelError(
            f"{self._describe()} has no value while the kernel is traced, so {use}",
            loc=caller(),
            fix=fix,
        )

    def _key(self) -> object:
        """Return what makes two objects of one class equal; identity if not overridden."""
        return id(self)

    def __eq__(self, other: object) -> Any:
        """Compare structure; refused where a kernel asks, whose answer is not known yet."""
        if getattr(other, "compares", False) and not self.compares:
            return NotImplemented
        same = self is other or (type(other) is type(self) and other._key() == self._key())
        if not same and tracing.active and not is_internal(_caller_of_operator()):
            self._refuse("Python cannot compare it", _COMPARE)
        return same

    def __hash__(self) -> int:
        return hash(self._key())

    def __lt__(self, other: Any) -> Any:
        if getattr(other, "compares", False):
            return NotImplemented
        self._refuse("Python cannot compare it", _COMPARE)

    def __le__(self, other: Any) -> Any:
        if getattr(other, "compares", False):
            return NotImplemented
        self._refuse("Python cannot compare it", _COMPARE)

    def __gt__(self, other: Any) -> Any:
        if getattr(other, "compares", False):
            return NotImplemented
        self._refuse("Python cannot compare it", _COMPARE)

    def __ge__(self, other: Any) -> Any:
        if getattr(other, "compares", False):
            return NotImplemented
        self._refuse("Python cannot compare it", _COMPARE)

    def __bool__(self) -> bool:
        self._refuse(
            "Python cannot branch on it",
            "choose by a keyword-only knob that has a value, or select elementwise with "
            "L.where(condition, a, b)",
        )

    def __index__(self) -> int:
        self._refuse(
            "it is not an int for range() or an index of a list",
            "iterate with `for t in sweep(n)`; use a knob with a number where Python needs one",
        )

    def __int__(self) -> int:
        self._refuse("int() cannot convert it", "use it as it is: it has + - * // %")

    def __float__(self) -> float:
        self._refuse(
            "float() and math functions cannot convert it",
            "use it as it is, such as `x * (1 / D)` or `x * D**-0.5`",
        )

    def __iter__(self) -> Any:
        self._refuse(
            "Python cannot iterate over it or unpack it",
            "iterate with grid(...), stage(...) or sweep(...)",
        )

    def __len__(self) -> int:
        self._refuse("len() has no answer", "use the dimension's own name")

    def __ilshift__(self, other: Any) -> Any:
        raise KernelError(
            f"{self._describe()} cannot be written: `<<=` stores into windows and states",
            loc=caller(),
            fix="write a window, as in `y[r] <<= value`; `=` gives a name another value",
        )

    def __matmul__(self, other: Any) -> Any:
        self._refuse("it is no operand of `@`", "contract windows, as in `a[i, k] @ b[j, k]`")

    __rmatmul__ = __matmul__

    def __getitem__(self, place: Any) -> Any:
        self._refuse("it cannot be indexed", "index a buffer by it, as in `x[r]`")


def _caller_of_operator() -> str:
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    return frame.f_globals.get("__name__", "")
