"""A front end that knows this repository by its pages alone, and runs exported cases.

``python -I foreign.py DIR [DEPTH]`` prints the cases that do not end as their files say. Loops may
be DEPTH deep. Units have no engines: only cases whose programs need none can pass.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

UNITS = (0, 1)  # nodes of `tiny` that may be posted to
SETA, ADDA, LOOP, END, BARRIER, HALT, SYNC = range(1, 8)
USED = {SETA: 86, ADDA: 124, LOOP: 76, END: 48, BARRIER: 48, HALT: 48, SYNC: 50}
SPAN = 1 << 34


class Fault(Exception):
    """A cause, at a pc."""


def programs(path: Path) -> list[tuple[int, list[int]]]:
    """Return node and words of every unit in an image."""
    content = path.read_bytes()
    assert content[:16] == bytes.fromhex("894B41490D0A1A0A") + struct.pack("<II", 1, 0), path
    manifest, code, data = struct.unpack("<QQQ", content[16:40])
    assert content[40:72] == hashlib.sha256(content[:40] + content[72:]).digest(), path
    assert len(content) == 72 + manifest + code + data, path
    units, place = json.loads(content[72 : 72 + manifest])["units"], 72 + manifest
    found = []
    for node, _, size in units:
        words = [content[at : at + 32] for at in range(place, place + size, 32)]
        found.append((node, [int.from_bytes(word, "little") for word in words]))
        place += size
    return found


def bits(word: int, high: int, low: int) -> int:
    return word >> low & (1 << high - low + 1) - 1


def slots(word: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return waits (semaphore, count) and posts (node, semaphore).

    Raises
    ------
    Fault
        If they are not laid out as they should be.
    """
    waits, posts = [], []
    for low in (8, 18):
        valid, semaphore, count = bits(word, low, low), bits(word, low + 5, low + 1), 0
        count = bits(word, low + 9, low + 6)
        if bool(count) != bool(valid) or (semaphore and not valid):
            raise Fault("ILLEGAL")
        if valid:
            waits.append((semaphore, count))
    for low in (28, 38):
        valid, node = bits(word, low, low), bits(word, low + 4, low + 1)
        semaphore = bits(word, low + 9, low + 5)
        if not valid and (node or semaphore):
            raise Fault("ILLEGAL")
        if valid:
            posts.append((node, semaphore))
    first = (bits(word, 8, 8), bits(word, 28, 28))
    if (len(waits) == 1 and not first[0]) or (len(posts) == 1 and not first[1]):
        raise Fault("ILLEGAL")
    if len({semaphore for semaphore, _ in waits}) < len(waits):
        raise Fault("ILLEGAL")
    if any(node not in UNITS for node, _ in posts):
        raise Fault("ILLEGAL")
    return waits, posts


def end_of(words: list[int], pc: int) -> int:
    """Return where the loop that begins at `pc` ends."""
    depth = 0
    for place in range(pc, len(words)):
        depth += (words[place] & 255 == LOOP) - (words[place] & 255 == END)
        if depth == 0:
            return place
    raise Fault("LOOP_DEPTH")


def run(words: list[int], depth: int) -> tuple[int, tuple[int, str] | None]:
    """Return the instructions that were executed, and pc and cause of the fault."""
    registers, semaphores, loops = [0] * 16, [0] * 32, []
    pc = executed = 0
    try:
        while True:
            if pc >= len(words):
                raise Fault("LOOP_DEPTH")
            word = words[pc]
            opcode, rd = word & 255, bits(word, 51, 48)
            if opcode not in USED or word >> USED[opcode] or (opcode in (SETA, ADDA) and not rd):
                raise Fault("ILLEGAL")
            if opcode == SYNC and bits(word, 49, 48) == 3:
                raise Fault("ILLEGAL")
            waits, posts = slots(word)
            for semaphore, count in waits:
                if semaphores[semaphore] < count:
                    raise Fault("WATCHDOG")
            for semaphore, count in waits:
                semaphores[semaphore] -= count
            executed += 1
            following = pc + 1
            if opcode == SETA:
                registers[rd] = bits(word, 85, 52)
            elif opcode == ADDA:
                value = (registers[bits(word, 55, 52)] + bits(word, 89, 56)) % SPAN
                modulo = bits(word, 123, 90)
                registers[rd] = value - modulo if modulo and value >= modulo else value
            elif opcode == LOOP:
                if len(loops) == depth:
                    raise Fault("LOOP_DEPTH")
                count = (registers[rd] + bits(word, 75, 52)) % SPAN
                if count:
                    loops.append([pc + 1, count])
                else:
                    following = end_of(words, pc) + 1
            elif opcode == END:
                if not loops:
                    raise Fault("LOOP_DEPTH")
                loops[-1][1] -= 1
                following = loops[-1][0] if loops[-1][1] else pc + 1
                if not loops[-1][1]:
                    loops.pop()
            for _, semaphore in posts:
                semaphores[semaphore] += 1
            if opcode == HALT:
                if any(semaphores):
                    raise Fault("SEM_LEFT")
                return executed, None
            pc = following
    except Fault as fault:
        return executed, (pc, str(fault))


def passes(folder: Path, case: dict, depth: int) -> bool:
    """Return whether a case of one unit ends as its files say."""
    stem = folder / case["files"]
    sizes = sum(size for _, size in case["regions"])
    before = stem.with_suffix(".before").read_bytes()
    after = stem.with_suffix(".after").read_bytes()
    assert len(before) == sizes, case["name"]
    ((node, words),) = programs(stem.with_suffix(".image"))
    executed, fault = run(words, depth)
    expected = case["fault"]
    if expected is None:
        counted = case["instructions"] == {str(node): executed}
        return fault is None and counted and case["macs"] == 0 and after == before
    assert after == b"", case["name"]
    if fault is None or node != expected["unit"]:
        return False
    return expected["pc"] in (None, fault[0]) and fault[1] in expected["causes"]


def main(directory: str, depth: str = "8") -> None:
    folder = Path(directory)
    suite = json.loads((folder / "suite.json").read_text())
    assert suite["format"] == 1
    wrong = [case["name"] for case in suite["cases"] if not passes(folder, case, int(depth))]
    print("".join(f"{name}\n" for name in wrong), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
