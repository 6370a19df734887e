"""Tools that take minutes: what one takes of the machine it runs on."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hw.board import watch
from hw.sim.toolchain import failure


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
        Bytes, at most at once.
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
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "usage.json"
        watched = [sys.executable, "-I", "-S", watch.__file__, str(result), *command]
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(watched, cwd=cwd, stdout=output, stderr=subprocess.STDOUT)
            try:
                process.wait()
            except BaseException:
                process.terminate()  # it ends the tool, which it alone knows
                process.wait()
                raise
            output.seek(0)
            text = output.read().decode(errors="replace")
        if process.returncode != 0:
            raise failure(command, process.returncode, text)
        took = json.loads(result.read_text())
    status = took.pop("status")
    if status != 0:
        raise failure(command, status, text)
    return Usage(**took)
