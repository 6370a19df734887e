"""Control instructions: the front end of every unit executes these itself.

`SYNC` alone goes to a queue, for its waits and posts.
"""

from __future__ import annotations

from kohakuaccel.isa import Modular, Operand, Record, Unsigned
from kohakutpu.config import ADDRESS_BITS
from kohakutpu.isa.operands import REGISTER, REGISTER_BITS, WORD, AddressType

_DESTINATION = Operand(
    "rd", Unsigned(REGISTER_BITS, low=1, prefix="a"), "register to write; `a0` is always 0"
)

SETA = Record(
    "SETA",
    1,
    (
        _DESTINATION,
        Operand("imm", Modular(ADDRESS_BITS), "the number; a relocation adds a base address to it"),
    ),
    form=WORD,
    positional=2,
    summary="set an address register",
    meaning="`a[rd] = imm`. Where the image has a relocation for it, the loader has added the base "
    "address of an operand, in quarters, modulo 2**34.",
)

ADDA = Record(
    "ADDA",
    2,
    (
        _DESTINATION,
        Operand("rs", REGISTER, "register to read"),
        Operand("imm", Modular(ADDRESS_BITS), "the number to add"),
        Operand("modulo", Unsigned(ADDRESS_BITS), "size of the ring, 0 for none", default=0),
    ),
    form=WORD,
    positional=3,
    summary="add to an address register",
    meaning="`a[rd] = a[rs] + imm`, modulo 2**34. Then, if `modulo != 0` and `a[rd] >= modulo`, "
    "`modulo` is subtracted once: a register walks round a ring of buffers this way.",
)

LOOP = Record(
    "LOOP",
    3,
    (Operand("count", AddressType(24), "how many times to run the body"),),
    form=WORD,
    positional=1,
    block="begin",
    summary="begin a loop",
    meaning="Run the instructions up to the matching `END` `a[r] + imm` times; with 0, skip them. "
    "Loops nest at most 8 deep, or the fault is `LOOP_DEPTH`. A body that fits the instruction "
    "buffer replays from it.",
)

END = Record(
    "END",
    4,
    (),
    form=WORD,
    block="end",
    summary="end the body of the innermost loop",
    meaning="Go back to the start of the innermost loop's body, or on after its last pass. Without "
    "a loop the fault is `LOOP_DEPTH`.",
)

BARRIER = Record(
    "BARRIER",
    5,
    (),
    form=WORD,
    summary="wait for every unit",
    meaning="Wait until the unit's engines are idle and everything they sent has arrived, then "
    "arrive at the control node and wait until every unit of the unit table has.",
)

HALT = Record(
    "HALT",
    6,
    (),
    form=WORD,
    summary="end the program",
    meaning="Wait until the engines are idle, then report. A semaphore that is not zero is the "
    "fault `SEM_LEFT`.",
)

SYNC = Record(
    "SYNC",
    7,
    (Operand("engine", Unsigned(2, high=2), "the queue it goes to"),),
    form=WORD,
    positional=1,
    summary="wait and post in an engine's queue",
    meaning="Nothing but its waits and posts, in order with the other instructions of the engine: "
    "0 FILL, 1 GEMM, 2 DRAIN in a cluster; 0 VFILL, 1 EXEC, 2 VDRAIN in a vector core.",
)

RECORDS = (SETA, ADDA, LOOP, END, BARRIER, HALT, SYNC)
