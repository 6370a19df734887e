"""Making the front end's doings visible: a register decides where something is written."""

from __future__ import annotations

from kohakuaccel.isa import Instruction
from kohakutpu.conformance.draft import Draft
from kohakutpu.conformance.shorthand import drain, vdrain
from kohakutpu.conformance.suite import samples
from kohakutpu.conformance.suite.contexts import load_tiles, load_words
from kohakutpu.isa import ADDA, Address

SPARE = 14
"""The register that is used to look at others."""


class Marks:
    """Places in memory that a program marks; which ones are marked tells what it did.

    Parameters
    ----------
    draft : Draft
        The case.
    node : int
        Unit whose program makes the marks.
    words : int
        Words to mark.
    """

    def __init__(self, draft: Draft, node: int, words: int = 16) -> None:
        self.output = draft.output(words)
        self.draft = draft
        self.program = draft.program(node)
        if self.program.kind == "C":
            load_tiles(draft, node)
        else:
            load_words(draft, node, samples.fp16_bytes("marks", 16 * words))

    def at(self, address: Address) -> None:
        """Mark the quarters at a memory address: half a sub-tile, or a word."""
        self.program.chain(_mark(self.program.kind, address))

    def value(self, register: int, expected: int, index: int) -> None:
        """Mark word `index` if a register holds `expected`; else another one, or nowhere."""
        self.program.settle()
        self.program.code.append(ADDA(rd=SPARE, rs=register, imm=_difference(expected, index)))
        self.at(Address(SPARE, self.output))

    def word(self, index: int) -> None:
        """Mark word `index`."""
        self.at(Address(0, self.output + 4 * index))


def _difference(expected: int, index: int) -> int:
    """Return what has to be added to `expected` for it to become an offset in quarters."""
    difference = 4 * index - expected
    return difference % (1 << 34)


def _mark(kind: str, address: Address) -> Instruction:
    if kind == "C":
        return drain(mem=address, rows=1, format="fp16", order="row")
    return vdrain(mem=address, l1=1)
