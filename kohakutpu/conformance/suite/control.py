"""The front end: registers, loops, extents, flags, the end of a program, full queues."""

from __future__ import annotations

from collections.abc import Iterator

from kohakuaccel.isa import Instruction
from kohakutpu import isa
from kohakutpu.config import ADDRESS_BITS, LOOP_DEPTH, Machine
from kohakutpu.conformance.draft import Draft
from kohakutpu.conformance.points import fields
from kohakutpu.conformance.shorthand import MANY, drain, fill, gemm, vdrain, vfill
from kohakutpu.conformance.suite import samples
from kohakutpu.conformance.suite.boundaries import Result, changed
from kohakutpu.conformance.suite.contexts import load_entries, load_tiles, load_words
from kohakutpu.conformance.suite.observe import Marks
from kohakutpu.isa import ADDA, END, HALT, LOOP, SETA, SYNC, Address, Extent, Flag, Post, Wait

TOP = (1 << ADDRESS_BITS) - 1
HALF = 1 << (ADDRESS_BITS - 1)
LARGEST_COUNT = (1 << 24) - 1


def cases(machine: Machine) -> Iterator[Result]:
    """Yield the cases, of both kinds of unit."""
    for kind in "CV":
        node = machine.of_kind(kind)[0].id
        yield from _words(machine, kind, node)
        yield from _registers(machine, kind, node)
        yield from _loops(machine, kind, node)
        yield from _ends(machine, kind, node)
        yield from _queues(machine, kind, node)
    yield from _extents(machine)
    yield from _flags(machine)


def _words(machine: Machine, kind: str, node: int) -> Iterator[Result]:
    """Yield words of control instructions with a field at an edge that makes them none.

    Also opcodes that stand for nothing, or for an instruction of the other kind of unit.
    """
    bases = (
        SETA(rd=1, imm=0),
        ADDA(rd=1, rs=0, imm=0),
        LOOP(Address(0, 1)),
        END(),
        isa.BARRIER(),
        HALT(),
        SYNC(0),
    )
    for base in bases:
        for field in fields(base.record):
            for value in field.values:
                word = changed(base, field, value)
                draft = Draft(machine, f"word/{kind}.{base.name}/{field.label(value)}")
                program = draft.program(node)
                try:
                    instruction = isa.decode(kind, word)
                except isa.IllegalInstruction:
                    program.code.append(word)
                    yield draft.finish()
                    continue
                if any(post.node not in (0, 1) for post in instruction.posts):
                    program.code.append(word)
                    yield draft.finish()
    known = {record.opcode for record in isa.records(kind)}
    other = {record.opcode for record in isa.records("V" if kind == "C" else "C")}
    for opcode in sorted({0, 11, 15, 16, 128, 255} | other - known):
        draft = Draft(machine, f"word/{kind}/opcode={opcode}")
        draft.program(node).code.append(opcode.to_bytes(32, "little"))
        yield draft.finish()


def _registers(machine: Machine, kind: str, node: int) -> Iterator[Result]:
    for number, value in enumerate((0, 1, HALF - 1, HALF, TOP)):
        for register in (1, 13, 15):
            draft = Draft(machine, f"control/{kind}.SETA/a{register}={number}")
            marks = Marks(draft, node)
            marks.program.code.append(SETA(rd=register, imm=value))
            marks.value(register, value, 3)
            yield draft.finish()
    sums = (
        ("plain", 5, 7, 0),
        ("wraps", TOP, 2, 0),
        ("negative", 5, TOP - 1, 0),
        ("ring-below", 5, 3, 9),
        ("ring-reaches", 5, 4, 9),
        ("ring-once", 5, 15, 9),
        ("ring-largest", TOP - 3, 3, TOP),
        ("ring-one", 0, 0, 1),
        ("ring-after-wrap", TOP, 11, 9),
        ("largest", 0, TOP, 0),
        ("ring-unsigned", HALF, 0, 5),
    )
    for name, start, step, modulo in sums:
        draft = Draft(machine, f"control/{kind}.ADDA/{name}")
        marks = Marks(draft, node)
        code = marks.program.code
        code += [SETA(rd=15, imm=start), ADDA(rd=1, rs=15, imm=step, modulo=modulo)]
        expected = (start + step) % (1 << ADDRESS_BITS)
        if modulo and expected >= modulo:
            expected -= modulo
        marks.value(1, expected, 2)
        marks.value(15, start, 5)
        yield draft.finish()
    draft = Draft(machine, f"control/{kind}.registers/zero")
    marks = Marks(draft, node)
    for register in range(16):
        marks.value(register, 0, register % 14)
    yield draft.finish()
    draft = Draft(machine, f"control/{kind}.registers/apart")
    marks = Marks(draft, node)
    for register in range(1, 16):
        marks.program.code.append(SETA(rd=register, imm=1000 * register))
    for register in (*range(1, 14), 15):
        marks.value(register, 1000 * register, register)
    yield draft.finish()
    draft = Draft(machine, f"control/{kind}.registers/own")
    marks = Marks(draft, node)
    marks.program.code += [SETA(rd=2, imm=3), *[ADDA(rd=2, rs=2, imm=5, modulo=7)] * 6]
    marks.value(2, (3 + 5 * 6) % 7, 1)
    marks.program.code.append(ADDA(rd=3, rs=0, imm=9))
    marks.value(3, 9, 6)
    yield draft.finish()


def _loops(machine: Machine, kind: str, node: int) -> Iterator[Result]:
    def counted(name: str, *code: Instruction, expected: int) -> Result:
        draft = Draft(machine, f"control/{kind}.LOOP/{name}")
        marks = Marks(draft, node)
        marks.program.code += code
        marks.value(1, expected, 4)
        return draft.finish()

    def loop(count: int, register: int = 0) -> Instruction:
        return LOOP(Address(register, count))

    step = ADDA(rd=1, rs=1, imm=1)
    yield counted("once", loop(1), step, END(), expected=1)
    yield counted("many", loop(37), step, END(), expected=37)
    yield counted("none", loop(0), step, END(), expected=0)
    yield counted("empty", loop(5), END(), step, expected=1)
    skipped = (loop(0), loop(3), step, END(), loop(0), END(), step, END())
    yield counted("none-of-nested", *skipped, step, expected=1)
    inside = (loop(3), step, loop(0), step, END(), END())
    yield counted("none-inside", *inside, expected=3)
    deep = [loop(2) for _ in range(LOOP_DEPTH)] + [step] + [END()] * LOOP_DEPTH
    yield counted("deep", *deep, expected=2**LOOP_DEPTH)
    ragged = [loop(n % 3 + 1) for n in range(LOOP_DEPTH)]
    body = [part for n in range(LOOP_DEPTH) for part in (ADDA(rd=1, rs=1, imm=10**n % 997), END())]
    total, passes = 0, [n % 3 + 1 for n in range(LOOP_DEPTH)]
    for n in range(LOOP_DEPTH):
        times = 1
        for outer in passes[: LOOP_DEPTH - n]:
            times *= outer
        total += times * (10**n % 997)
    yield counted("ragged", *ragged, step, *body, expected=total + _product(passes))
    again = [loop(2), *deep[1:-1], loop(3), step, END(), END()]
    yield counted("depth-again", *again, expected=2 * (2 ** (LOOP_DEPTH - 1) + 3))
    first = (SETA(rd=1, imm=4), loop(0, 1), step, END())
    yield counted("first-register", *first, expected=8)
    yield counted("register", SETA(rd=2, imm=6), loop(3, 2), step, END(), expected=9)
    few = SETA(rd=2, imm=TOP - LARGEST_COUNT + 1 + 4)
    yield counted("largest", few, loop(LARGEST_COUNT, 2), step, END(), expected=4)
    cancel = SETA(rd=15, imm=TOP - 5 + 1)
    yield counted("register-none", cancel, loop(5, 15), step, END(), expected=0)
    own = (SETA(rd=2, imm=3), loop(0, 2), ADDA(rd=2, rs=2, imm=10), step, END())
    yield counted("count-once", *own, expected=3)
    growing = (
        SETA(rd=2, imm=0),
        loop(4),
        loop(0, 2),
        step,
        END(),
        ADDA(rd=2, rs=2, imm=1),
        END(),
    )
    yield counted("triangle", *growing, expected=6)
    size = machine.instruction_buffer
    for length in (size - 2, size - 1, size, size + 1, 2 * size + 3):
        long = [ADDA(rd=1, rs=1, imm=n + 1) for n in range(length)]
        expected = 3 * sum(range(1, length + 1))
        yield counted(f"body-{length}", loop(3), *long, END(), expected=expected)
    nested = [ADDA(rd=1, rs=1, imm=1)] * (size // 2)
    inner = (loop(2), *nested, loop(2), *nested, END(), *nested, END())
    yield counted("outer-too-long", *inner, expected=2 * 4 * (size // 2))
    many = [loop(2), step, END()] * 20
    yield counted("one-after-another", *many, expected=40)


def _product(numbers: list[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def _ends(machine: Machine, kind: str, node: int) -> Iterator[Result]:
    """Yield programs whose loops are not in order, or that go past their end."""
    deep = [LOOP(Address(0, 1))] * (LOOP_DEPTH + 1) + [END()] * (LOOP_DEPTH + 1)
    programs = {
        "too-deep": [*deep, HALT()],
        "no-loop": [SETA(rd=1, imm=1), END(), HALT()],
        "one-end-too-many": [LOOP(Address(0, 2)), END(), END(), HALT()],
        "end-after-none": [LOOP(Address(0, 0)), END(), END(), HALT()],
        "past": [SETA(rd=1, imm=1), SYNC(0)],
        "past-buffer": [SETA(rd=1, imm=1)] * (machine.instruction_buffer + 3),
        "halt-only": [HALT()],
        "behind-halt": [HALT(), END()],
    }
    for name, program in programs.items():
        draft = Draft(machine, f"control/{kind}.end/{name}")
        draft.program(node).code += program
        yield draft.settled()
    draft = Draft(machine, f"control/{kind}.end/none-behind-halt")
    draft.program(node).code += [HALT(), b"\xff" * 32]
    yield draft.settled()


def _queues(machine: Machine, kind: str, node: int) -> Iterator[Result]:
    """Yield an engine whose queue is as full as it gets while it waits, and one too many."""
    depth = machine.queue_depth
    for engine in range(3):
        for name, count in (("full", depth), ("too-full", depth + 1)):
            draft = Draft(machine, f"control/{kind}.queue-{engine}/{name}")
            program = draft.program(node)
            waiting = [SYNC(engine, waits=(Wait(0, 1),))] + [SYNC(engine)] * (count - 1)
            program.code += [*waiting, SETA(rd=1, imm=1, posts=(Post(node, 0),))]
            yield draft.finish()


def _extents(machine: Machine) -> Iterator[Result]:
    """Yield extents that a register makes negative, zero, whole and larger than the window."""
    cluster, core = machine.of_kind("C")[0].id, machine.of_kind("V")[0].id
    for number, (limit, register) in enumerate(
        (
            (0, 0),
            (5, 5),
            (5, 4),
            (5, 6),
            (5, TOP),  # -1: one more than the limit
            (0, TOP - 6),
            (MANY, MANY - 1),
            (MANY, MANY + 7),
            (3, HALF),  # the most negative number: everything
            (3, HALF - 1),  # the largest: nothing
            (7, 1),
        )
    ):
        extent = Extent(limit, 9 if register else 0)
        for record in ("FILL.rows", "FILL.k", "DRAIN.rows", "DRAIN.cols", "VFILL.row_extent"):
            yield _with_extent(machine, cluster, core, f"{record}/{number}", extent, register)
        for record in ("VFILL.col_extent", "VDRAIN.row_extent", "VDRAIN.col_extent"):
            yield _with_extent(machine, cluster, core, f"{record}/{number}", extent, register)


def _with_extent(
    machine: Machine, cluster: int, core: int, name: str, extent: Extent, register: int
) -> Result:
    record, operand = name.split("/")[0].split(".")
    node = core if record.startswith("V") else cluster
    draft = Draft(machine, f"extent/{name}")
    given = {operand: extent}
    output = draft.output(40)
    numbers = samples.fp16_bytes("extents", 16 * 40)
    match record:
        case "FILL":
            code = fill("A", mem=draft.data(numbers), g=2, stride=2, **given)
        case "DRAIN":
            load_tiles(draft, node)
            code = drain(gm=2, gn=2, mem=output, stride=2, format="fp16", **given)
        case "VFILL":
            code = vfill(mem=draft.data(numbers), rows=8, cols=8, **given)
        case _:
            load_words(draft, node, numbers)
            code = vdrain(rows=8, cols=8, mem=output, **given)
    draft.program(node).code.append(SETA(rd=9, imm=register))
    assert code.engine is not None, code
    return draft.examine(node, [code], code.engine)


def _flags(machine: Machine) -> Iterator[Result]:
    node = machine.of_kind("C")[0].id
    for name, flag, register in (
        ("off", Flag(False, 0), 0),
        ("on", Flag(True, 0), 0),
        ("zero", Flag(False, 5), 0),
        ("one", Flag(False, 5), 1),
        ("top", Flag(False, 5), HALF),
        ("both", Flag(True, 5), 0),
        ("low-bits-zero", Flag(False, 15), 1 << 32),
    ):
        draft = Draft(machine, f"flag/{name}")
        for buffer in "AB":
            load_entries(draft, node, buffer, 4)
        draft.program(node).chain(gemm(gm=2, gn=2))
        draft.program(node).code += [SETA(rd=5, imm=register), SETA(rd=15, imm=register)]
        yield draft.examine(node, [gemm(gm=2, gn=2, a=1, b=1, nk=2, accumulate=flag)], 1)
