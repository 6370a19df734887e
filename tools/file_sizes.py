"""Keep source files short: `python tools/file_sizes.py [ROOT]`.

Aim for 80 to 250 lines. Above 400 a file is named, so that somebody looks at it; above 600 the
check fails, unless the file is a table listed in `TABLES`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

LOOK = 400
REFUSE = 600
FOLDERS = (
    "kohakuaccel",
    "kohakutpu",
    "compiler",
    "hw",
    "cocotb_tests",
    "tests",
    "bench",
    "examples",
    "demos",
    "tools",
    "docs",
)
SUFFIXES = {".py", ".v", ".sv", ".vlt", ".cpp", ".h"}

# Tables are read by looking up a line, not from top to bottom: path -> why it is one.
TABLES: dict[str, str] = {}


def lengths(root: Path) -> Iterator[tuple[str, int]]:
    """Yield the path below `root` and the number of lines of every source file."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                with path.open(encoding="utf-8") as source:
                    yield path.relative_to(root).as_posix(), sum(1 for _ in source)


def main(root: Path) -> int:
    """Print each file that is too long and return the process's exit status."""
    refused = 0
    for name, lines in lengths(root):
        if lines <= LOOK or name in TABLES:
            continue
        if lines > REFUSE:
            refused += 1
            print(f"{name}: {lines} lines, more than {REFUSE}: split it by responsibility")
        else:
            print(f"{name}: {lines} lines, more than {LOOK}: worth a look")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
