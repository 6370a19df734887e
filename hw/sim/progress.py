"""What people see of something that takes a while: nothing, for two seconds."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

PATIENCE = 2.0  # seconds without a word
INTERVAL = 0.25  # from one to the next on a terminal
LOGGED = 15.0  # and in a file, where every one stays


@contextmanager
def notice(text: str) -> Iterator[None]:
    """Say `text` once what is done in the block takes more than two seconds, and how long it took.

    Nothing is said of a block that fails; its exception says more.
    """
    started = monotonic()
    timer = threading.Timer(PATIENCE, _say, [f"ktpu: {text} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    seconds = monotonic() - started
    if seconds > PATIENCE:
        _say(f"ktpu: {text}: {seconds:.0f} s")


class Progress:
    """One line about a run, renewed in place on a terminal.

    Parameters
    ----------
    expected : callable
        How many instructions the run will take, 0 if nobody knows; asked once, and only if the
        run takes so long that anything is said of it.
    """

    def __init__(self, expected: Callable[[], int] = lambda: 0) -> None:
        self._expected = expected
        self._total: int | None = None
        self._terminal = sys.stderr.isatty()
        self._started = monotonic()
        self._next = self._started + PATIENCE

    def update(self, cycles: int, instructions: int) -> None:
        """Say how far it is, if it is time to."""
        now = monotonic()
        if now < self._next:
            return
        self._next = now + (INTERVAL if self._terminal else LOGGED)
        if self._total is None:
            self._total = self._expected()
        line = describe(cycles, now - self._started, instructions, self._total)
        if self._terminal:
            sys.stderr.write(f"\r\x1b[Kktpu: {line}")
            sys.stderr.flush()
        else:
            _say(f"ktpu: {line}")

    def close(self) -> None:
        """Leave the line of the terminal as it was before."""
        if self._total is not None and self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def describe(cycles: int, seconds: float, instructions: int, total: int) -> str:
    """Return cycles, rate and, where it can be known, the time left, as text."""
    text = f"{cycles:,} cycles, {cycles / seconds / 1000:.0f} k/s"
    if 0 < instructions <= total:
        text += f", about {seconds * (total - instructions) / instructions:.0f} s left"
    return text


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
