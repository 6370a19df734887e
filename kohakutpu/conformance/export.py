"""A suite as files: for implementations that are not in this repository, or not in Python.

``docs/conformance.md`` states the format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kohakuaccel.image import Image, ImageError
from kohakutpu.config import Machine
from kohakutpu.conformance.case import Case, Stop

FORMAT = 1
INDEX = "suite.json"


class SuiteError(ValueError):
    """A directory that holds no suite, or one that contradicts itself; the message says why."""


def write(directory: Path, machine: Machine, cases: Iterable[Case]) -> int:
    """Write cases to a directory and return how many.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    for number, case in enumerate(cases):
        stem = f"{number:05}"
        (directory / f"{stem}.image").write_bytes(case.image.to_bytes())
        (directory / f"{stem}.before").write_bytes(b"".join(c for _, c in case.memory))
        (directory / f"{stem}.after").write_bytes(b"".join(case.signature))
        entries.append(
            {
                "name": case.name,
                "files": stem,
                "regions": [[address, len(content)] for address, content in case.memory],
                "bases": list(case.bases),
                "fault": None if case.stop is None else _stop(case.stop),
                "instructions": dict(case.instructions),
                "macs": case.macs,
                "memory": case.reach,
            }
        )
    index = {
        "format": FORMAT,
        "machine": machine.name,
        "machine_hash": machine.hash,
        "cases": entries,
    }
    (directory / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    return len(entries)


def _stop(stop: Stop) -> dict[str, Any]:
    return {"unit": stop.unit, "pc": stop.pc, "causes": list(stop.causes)}


def read(directory: Path) -> list[Case]:
    """Return the cases that a directory holds.

    Raises
    ------
    SuiteError
        If it holds no suite of this format, or one that does not make sense.
    OSError
        If a file cannot be read.
    """
    path = directory / INDEX
    try:
        index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if index["format"] != FORMAT:
            raise SuiteError(f"{path}: format {index['format']!r}; this reader knows {FORMAT}")
        return [_case(directory, entry) for entry in index["cases"]]
    except SuiteError:
        raise
    except ImageError as error:
        raise SuiteError(f"{directory}: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SuiteError(f"{path}: no index of a suite: {error!r}") from error


def _case(directory: Path, entry: dict[str, Any]) -> Case:
    stem: str = entry["files"]
    regions: list[tuple[int, int]] = [(int(a), int(n)) for a, n in entry["regions"]]
    fault: dict[str, Any] | None = entry["fault"]
    stop = None
    if fault is not None:
        stop = Stop(fault["unit"], fault["pc"], tuple(fault["causes"]))
    before = _split(directory / f"{stem}.before", [n for _, n in regions])
    after = () if stop else _split(directory / f"{stem}.after", [n for _, n in regions])
    return Case(
        name=entry["name"],
        image=Image.from_bytes((directory / f"{stem}.image").read_bytes()),
        bases=tuple(entry["bases"]),
        memory=tuple((a, c) for (a, _), c in zip(regions, before, strict=True)),
        stop=stop,
        signature=tuple(after),
        instructions=tuple((int(node), n) for node, n in entry["instructions"].items()),
        macs=entry["macs"],
        reach=int(entry["memory"]),
    )


def _split(path: Path, lengths: list[int]) -> tuple[bytes, ...]:
    content = path.read_bytes()
    if len(content) != sum(lengths):
        raise SuiteError(f"{path}: {len(content)} bytes, not {sum(lengths)}")
    parts: list[bytes] = []
    for length in lengths:
        parts.append(content[:length])
        content = content[length:]
    return tuple(parts)
