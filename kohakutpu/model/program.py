"""Unit programs: words from memory, decoded once into the steps a front end takes.

A step is a tuple that starts with one of the codes below. Everything is memoised: the steps of
a whole program by its bytes, and a single word by itself, since programs mostly differ in the
base addresses that were patched into them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kohakutpu import isa
from kohakutpu.config import LOOP_DEPTH, WORD_BYTES, Machine
from kohakutpu.model.cluster import Drain, Fill, Gemm
from kohakutpu.model.execute import Execute
from kohakutpu.model.faults import Violation
from kohakutpu.model.operation import Operation, Sync, posts_of, waits_of
from kohakutpu.model.vector import VDrain, VFill

# (ENGINE, queue, operation, resolve)      (SETA, rd, imm)         (ADDA, rd, rs, imm, modulo)
# (LOOP, reg, imm, pc after END)           (END, pc after LOOP, words fetched again)
# (SYNCED, waits, posts, step without)     (BARRIER,)  (HALT,)     (BAD, cause, message, numbers)
ENGINE, SETA, ADDA, LOOP, END, SYNCED, BARRIER, HALT, BAD = range(9)

Step = tuple[Any, ...]

OPERATIONS: dict[str, type[Operation]] = {
    "FILL": Fill,
    "GEMM": Gemm,
    "DRAIN": Drain,
    "VFILL": VFill,
    "EXEC": Execute,
    "VDRAIN": VDrain,
    "SYNC": Sync,
}


@dataclass(frozen=True)
class Program:
    """Where a unit's program lies in memory.

    Attributes
    ----------
    node : int
        The unit that runs it.
    kind : str
        ``"C"`` or ``"V"``.
    address : int
        Byte address of its first word, a multiple of 32.
    count : int
        Words.
    """

    node: int
    kind: str
    address: int
    count: int


@lru_cache(maxsize=64)
def steps(words: bytes, kind: str, machine: Machine) -> tuple[Step, ...]:
    """Return the steps of a program, with one more that faults past its end."""
    result: list[Step] = []
    opened: list[int] = []  # pcs of the loops around
    for pc in range(len(words) // WORD_BYTES):
        step = _step(words[pc * WORD_BYTES : (pc + 1) * WORD_BYTES], kind, machine)
        inner = step[3] if step[0] == SYNCED else step
        if inner[0] == LOOP:
            opened.append(pc)
            if len(opened) > LOOP_DEPTH:
                step = _bad(
                    "LOOP_DEPTH",
                    f"loops nest {len(opened)} deep and {LOOP_DEPTH} is the limit",
                    depth=len(opened),
                )
        elif inner[0] == END:
            if not opened:
                step = _bad("LOOP_DEPTH", "END without LOOP", depth=0)
            else:
                start = opened.pop()
                body = pc - start
                again = 0 if body <= machine.instruction_buffer else body
                step = _replace(step, (END, start + 1, again))
                result[start] = _skipping_to(result[start], pc + 1)
        result.append(step)
    for start in opened:  # skipping it runs past the end
        result[start] = _skipping_to(result[start], len(result))
    result.append(_bad("LOOP_DEPTH", "the program ends without HALT", count=len(result)))
    return tuple(result)


@lru_cache(maxsize=4096)
def _step(word: bytes, kind: str, machine: Machine) -> Step:
    try:
        instruction = isa.decode(kind, word)
        return _compiled(instruction, machine)
    except isa.IllegalInstruction as error:
        return _bad("ILLEGAL", error.reason, word=word.hex())
    except Violation as violation:
        return (BAD, violation.cause, violation.message, violation.numbers)


def _compiled(instruction: isa.Instruction, machine: Machine) -> Step:
    name = instruction.name
    if name in OPERATIONS:
        operation = OPERATIONS[name](instruction, machine)
        return (ENGINE, operation.queue, operation, operation.resolve)
    plain: Step
    if name == "SETA":
        plain = (SETA, instruction.rd, instruction.imm)
    elif name == "ADDA":
        plain = (ADDA, instruction.rd, instruction.rs, instruction.imm, instruction.modulo)
    elif name == "LOOP":
        plain = (LOOP, instruction.count.reg, instruction.count.imm, 0)
    elif name == "END":
        plain = (END, 0, 0)
    elif name == "BARRIER":
        plain = (BARRIER,)
    else:
        assert name == "HALT", name
        plain = (HALT,)
    if not instruction.waits and not instruction.posts:
        return plain
    return (SYNCED, waits_of(instruction), posts_of(instruction, machine), plain)


def _bad(cause: str, message: str, **numbers: int | str) -> Step:
    return (BAD, cause, message, numbers)


def _skipping_to(step: Step, end: int) -> Step:
    """Return a LOOP that goes on at `end` when its count is 0; a BAD one stays."""
    plain = step[3] if step[0] == SYNCED else step
    return _replace(step, (*plain[:3], end)) if plain[0] == LOOP else step


def _replace(step: Step, plain: Step) -> Step:
    return (*step[:3], plain) if step[0] == SYNCED else plain
