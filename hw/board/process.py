"""Tools that take minutes: what one takes of the machine it runs on."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from hw.sim.toolchain import failure

MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024
"""What the system counts the largest resident set in."""


@dataclass(frozen=True)
class Usage:
    """What a process took.

    Parameters
    ----------
    seconds : float
        From its start to its end, by the clock.
    processor : float
        Seconds of processor time.
    memory : int
        Bytes, at most at once; no less than what the process that started it ever held, since
        Linux counts a child from its parent's image on.
    """

    seconds: float
    processor: float
    memory: int

    def __str__(self) -> str:
        """Return the figures for people."""
        return (
            f"{self.seconds:,.0f} s, of them {self.processor:,.0f} s of processor time, "
            f"{self.memory / (1 << 30):.2f} GiB at most"
        )


def measured(command: list[str], cwd: Path) -> Usage:
    """Run `command` and return what it took.

    Parameters
    ----------
    command : list of str
        The program and its arguments.
    cwd : pathlib.Path
        Where it runs.

    Raises
    ------
    ToolError
        If it fails; the message is the command and the end of its output.
    """
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            # `subprocess` tells nothing of one child's memory.
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            raise failure(command, process.returncode, output.read().decode(errors="replace"))
    return Usage(
        time.monotonic() - started,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * MAXRSS_BYTES,
    )
