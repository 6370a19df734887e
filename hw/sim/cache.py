"""Folders named by a hash of what they were built from, built once whoever asks first."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def folder() -> Path:
    """Return where builds are kept.

    That is ``$KTPU_CACHE``, or else ``build/rtl`` of a checkout, or else the user's cache.
    """
    chosen = os.environ.get("KTPU_CACHE")
    if chosen:
        return Path(chosen)
    if (ROOT / "pyproject.toml").is_file():
        return ROOT / "build" / "rtl"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohakutpu"


def obtain(name: str, contents: list[str], build: Callable[[Path], None]) -> Path:
    """Return the folder that `build` makes from `contents`, from the cache where it is there.

    Processes that ask for the same folder at once wait for the first of them. A build that
    fails or is interrupted leaves nothing behind.

    Parameters
    ----------
    name : str
        Start of the folder's name, for people.
    contents : list of str
        Everything the result depends on.
    build : callable
        Fills the empty folder it is given.

    Returns
    -------
    pathlib.Path
        A folder that nobody changes any more.
    """
    digest = hashlib.sha256("\0".join(contents).encode()).hexdigest()[:16]
    target = folder() / f"{name}-{digest}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when closed, by whatever ends the process
        if not target.is_dir():
            for left in target.parent.glob(f".{target.name}-*"):  # of a process that was killed
                shutil.rmtree(left)
            work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
            try:
                build(work)
                work.rename(target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return target
