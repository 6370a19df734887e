"""Runs a command and writes what it took: ``watch.py FILE COMMAND...``, a program of its own.

Linux counts the memory of a process from the image it was forked from, so that is a small one.
"""

import json
import os
import signal
import subprocess
import sys
import time


def main(result: str, command: list[str]) -> None:
    """Run `command` and write status, seconds and memory to `result`, as JSON.

    Parameters
    ----------
    result : str
        Name of the file.
    command : list of str
        The program and its arguments.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        # `subprocess` tells nothing of one child's memory.
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    took = {
        "status": os.waitstatus_to_exitcode(status),
        "seconds": time.monotonic() - started,
        "processor": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }
    with open(result, "w") as file:
        json.dump(took, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
