"""Programs with a semaphore less, and whether that is noticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.pipeline import Compiled
from compiler.tests.golden import Array, Launch, bits
from kohakuaccel.image import UnitProgram
from kohakutpu import isa
from kohakutpu.config import Machine
from kohakutpu.model import Fault


def semaphores_of(compiled: Compiled) -> list[tuple[int, int]]:
    return sorted(
        {
            (unit, wait.semaphore)
            for unit, program in enumerate(compiled.image.units)
            for start in range(0, len(program.words), 32)
            for wait in isa.decode(program.kind, program.words[start : start + 32]).waits
        }
    )


def without_semaphore(compiled: Compiled, unit: int, semaphore: int) -> Compiled:
    """The same programs with one semaphore of one unit gone from everybody's waits and posts."""
    node = compiled.image.units[unit].node
    units: list[UnitProgram] = []
    for index, program in enumerate(compiled.image.units):
        words: list[bytes] = []
        for start in range(0, len(program.words), 32):
            instruction = isa.decode(program.kind, program.words[start : start + 32])
            waits, posts = instruction.waits, instruction.posts
            if index == unit:
                waits = tuple(w for w in waits if w.semaphore != semaphore)
            posts = tuple(p for p in posts if (p.node, p.semaphore) != (node, semaphore))
            words.append(isa.encode(instruction.replace(waits=waits, posts=posts)))
        units.append(replace(program, words=b"".join(words)))
    return replace(compiled, image=replace(compiled.image, units=tuple(units)))


def goes_wrong(
    compiled: Compiled, args: list[Array], machine: Machine, seed: int, expected: Array
) -> bool:
    launch = Launch(compiled, args, machine, poison=True, seed=seed)
    try:
        launch.run()
    except Fault:
        return True
    return not np.array_equal(bits(launch.results()[0]).ravel(), bits(expected).ravel())
