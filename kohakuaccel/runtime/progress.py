"""What people see of something that takes a while: nothing, for two seconds."""

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic

PATIENCE = 2.0  # seconds without a word
INTERVAL = 0.25  # from one to the next on a terminal
LOGGED = 15.0  # and in a file, where every one stays


@contextmanager
def notice(text: str) -> Generator[None, None, None]:
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
    """One line about something that runs, renewed in place on a terminal.

    Parameters
    ----------
    describe : callable
        Returns the line, told the seconds that have passed; asked only when something is said.
    """

    def __init__(self, describe: Callable[[float], str]) -> None:
        self._describe = describe
        self._terminal = sys.stderr.isatty()
        self._started = monotonic()
        self._next = self._started + PATIENCE
        self._said = False

    def update(self) -> None:
        """Say how far it is, if it is time to."""
        now = monotonic()
        if now < self._next:
            return
        self._next = now + (INTERVAL if self._terminal else LOGGED)
        self._said = True
        line = self._describe(now - self._started)
        if self._terminal:
            sys.stderr.write(f"\r\x1b[Kktpu: {line}")
            sys.stderr.flush()
        else:
            _say(f"ktpu: {line}")

    def close(self) -> None:
        """Leave the line of the terminal as it was before."""
        if self._said and self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
