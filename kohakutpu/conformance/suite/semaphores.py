"""Waits and posts on every instruction, counts up to the largest, barriers, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator

from kohakuaccel.isa import Instruction
from kohakutpu.config import MAX_NODES, SEMAPHORE_MAX, SEMAPHORES, Machine
from kohakutpu.conformance.draft import Draft
from kohakutpu.conformance.shorthand import drain, fill, gemm, vdrain, vfill
from kohakutpu.conformance.suite import samples
from kohakutpu.conformance.suite.boundaries import Result, machine_has
from kohakutpu.conformance.suite.contexts import CONTEXTS, Context
from kohakutpu.conformance.suite.observe import Marks
from kohakutpu.isa import (
    ADDA,
    BARRIER,
    END,
    HALT,
    LOOP,
    SETA,
    SYNC,
    Address,
    Post,
    Wait,
)

LAST = SEMAPHORES - 1
MOST = 15  # that a wait can count

SLOTS: tuple[tuple[tuple[Wait, ...], tuple[int, ...]], ...] = (
    ((Wait(0, 1), Wait(1, MOST)), (LAST, LAST)),
    ((Wait(1, MOST), Wait(0, 1)), (LAST, LAST)),
    ((Wait(LAST, 2),), (1, 0)),
    ((), (0, 1)),
    ((Wait(5, MOST), Wait(LAST, 1)), (0, 1)),
    ((Wait(0, 1),), ()),
)
"""What an instruction waits for, and the semaphores it posts, of two units in turn.

They differ: while the instruction waits in its queue, the front end waits for its posts.
"""


def cases(machine: Machine) -> Iterator[Result]:
    """Yield the cases."""
    for kind in "CV":
        node = machine.of_kind(kind)[0].id
        for other in (unit.id for letter in "VC" for unit in machine.of_kind(letter)):
            if other != node:
                yield from _control(machine, kind, node, other)
                break
        yield from _counts(machine, kind, node)
        yield from _faults(machine, kind, node)
    for context in CONTEXTS:
        if context.name.split(".")[1] in ("rows", "tile", "memory", "fp16", "window"):
            yield _engine(machine, context)
    for kind in "CV":
        for engine in range(3):
            yield _sync(machine, kind, engine)
    yield from _meetings(machine)
    yield from _stuck(machine)


def _supply(draft: Draft, node: int, waits: tuple[Wait, ...]) -> None:
    """Let the front end post what an instruction will wait for."""
    code = draft.program(node).code
    for wait in waits:
        post = ADDA(rd=13, rs=13, imm=0, posts=(Post(node, wait.semaphore),))
        code += [LOOP(Address(0, wait.count)), post, END()]


def _consume(draft: Draft, node: int, semaphores: list[int]) -> None:
    """Let the front end wait for posts, one by one."""
    for semaphore in semaphores:
        draft.program(node).code.append(ADDA(rd=13, rs=13, imm=0, waits=(Wait(semaphore, 1),)))


def _mate(machine: Machine, node: int) -> int:
    """Return the first unit of the other kind."""
    kind = next(n.kind for n in machine.nodes if n.id == node)
    return machine.of_kind("V" if kind == "C" else "C")[0].id


def _posts(node: int, mate: int, semaphores: tuple[int, ...]) -> tuple[Post, ...]:
    return tuple(
        Post(node if slot == 0 else mate, semaphore) for slot, semaphore in enumerate(semaphores)
    )


def _engine(machine: Machine, context: Context) -> Result:
    """Let one instruction wait and post in every way, several times over."""
    draft = Draft(machine, f"semaphore/{context.record.name}")
    node = context.node(machine)
    mate = _mate(machine, node)
    base = context.setup(draft, node)
    draft.program(node).settle()
    for waits, semaphores in SLOTS:
        for first, second in ((node, mate), (mate, node)):
            _supply(draft, node, waits)
            posts = _posts(first, second, semaphores)
            draft.program(node).code.append(base.replace(waits=waits, posts=posts))
            _consume(draft, node, [p.semaphore for p in posts if p.node == node])
            _consume(draft, mate, [p.semaphore for p in posts if p.node == mate])
    assert base.engine is not None, base
    return draft.examine(node, [base], base.engine)


def _sync(machine: Machine, kind: str, engine: int) -> Result:
    draft = Draft(machine, f"semaphore/{kind}.SYNC/{engine}")
    node = machine.of_kind(kind)[0].id
    mate = _mate(machine, node)
    for waits, semaphores in SLOTS:
        for first, second in ((node, mate), (mate, node)):
            posts = _posts(first, second, semaphores)
            draft.program(node).code.append(SYNC(engine, waits=waits, posts=posts))
            _supply(draft, node, waits)
            _consume(draft, node, [p.semaphore for p in posts if p.node == node])
            _consume(draft, mate, [p.semaphore for p in posts if p.node == mate])
    return draft.finish()


def _control(machine: Machine, kind: str, node: int, mate: int) -> Iterator[Result]:
    """Let every control instruction wait and post in every way."""

    def wrapped(
        name: str, before: list[Instruction], code: Instruction, after: list[Instruction]
    ) -> Result:
        draft = Draft(machine, f"semaphore/{kind}.{name}")
        marks = Marks(draft, node)
        marks.program.settle()
        for waits, semaphores in SLOTS:
            for first, second in ((node, mate), (mate, node)):
                posts = _posts(first, second, semaphores)
                _supply(draft, node, waits)
                own = [code.replace(waits=waits, posts=posts)]
                draft.program(node).code += [*before, *own, *after]
                if name == "BARRIER":
                    draft.program(mate).code.append(BARRIER())
                _consume(draft, node, [p.semaphore for p in posts if p.node == node])
                _consume(draft, mate, [p.semaphore for p in posts if p.node == mate])
        marks.value(1, 2 * len(SLOTS), 3)
        return draft.finish()

    step = ADDA(rd=1, rs=1, imm=1)
    yield wrapped("SETA", [step], SETA(rd=2, imm=1), [])
    yield wrapped("ADDA", [], step, [])
    yield wrapped("LOOP", [], LOOP(Address(0, 1)), [step, END()])
    yield wrapped("END", [LOOP(Address(0, 1)), step], END(), [])
    yield wrapped("BARRIER", [step], BARRIER(), [])
    for number, (waits, semaphores) in enumerate(SLOTS):
        for slot in range(len(semaphores) or 1):
            draft = Draft(machine, f"semaphore/{kind}.HALT/{number}.{slot}")
            _supply(draft, node, waits)
            posts = tuple(Post(mate, semaphore) for semaphore in semaphores[slot:])
            draft.program(node).code.append(HALT(waits=waits, posts=posts))
            _consume(draft, mate, [post.semaphore for post in posts])
            draft.program(mate).chain(HALT())
            yield draft.settled()


def _counts(machine: Machine, kind: str, node: int) -> Iterator[Result]:
    """Count to 255 and back, in steps of every size."""
    draft = Draft(machine, f"semaphore/{kind}.count/all")
    post = ADDA(rd=13, rs=13, imm=0, posts=(Post(node, 3), Post(node, 3)))
    single = ADDA(rd=13, rs=13, imm=0, posts=(Post(node, 3),))
    code = draft.program(node).code
    code += [LOOP(Address(0, SEMAPHORE_MAX // 2)), post, END(), single]
    left = SEMAPHORE_MAX
    for count in range(1, MOST + 1):
        code.append(ADDA(rd=13, rs=13, imm=0, waits=(Wait(3, count),)))
        left -= count
    code += [LOOP(Address(0, left)), single.replace(posts=(), waits=(Wait(3, 1),)), END()]
    yield draft.finish()
    draft = Draft(machine, f"semaphore/{kind}.count/loop")
    marks = Marks(draft, node)
    marks.program.settle()
    own = (Post(node, 0),)
    body = [
        LOOP(Address(0, 3), posts=own),
        ADDA(rd=1, rs=1, imm=1, waits=(Wait(0, 1),), posts=own),
        END(waits=(Wait(0, 1),), posts=own),
        ADDA(rd=2, rs=2, imm=1, waits=(Wait(0, 1),)),
    ]
    marks.program.code += body
    marks.value(1, 3, 2)
    marks.value(2, 1, 6)
    yield draft.finish()
    for semaphore in range(SEMAPHORES):
        draft = Draft(machine, f"semaphore/{kind}.each/{semaphore}")
        code = draft.program(node).code
        code.append(SYNC(0, waits=(Wait(semaphore, 1),), posts=(Post(node, (semaphore + 1) % 32),)))
        code.append(SYNC(1, waits=(Wait((semaphore + 1) % 32, 1),)))
        code.append(SETA(rd=1, imm=1, posts=(Post(node, semaphore),)))
        yield draft.finish()


def _faults(machine: Machine, kind: str, node: int) -> Iterator[Result]:
    def ended(name: str, *code: Instruction, settled: bool = False) -> Result:
        draft = Draft(machine, f"fault/{kind}.{name}")
        draft.program(node).code += code
        return draft.settled() if settled else draft.finish()

    twice = ADDA(rd=1, rs=1, imm=0, posts=(Post(node, LAST),) * 2)
    once = ADDA(rd=1, rs=1, imm=0, posts=(Post(node, LAST),))
    many = (LOOP(Address(0, SEMAPHORE_MAX // 2)), twice, END())
    yield ended("SEM_OVERFLOW/front-end", *many, once, once, HALT(waits=(Wait(LAST, 1),)))
    yield ended("SEM_OVERFLOW/two-at-once", *many, twice)
    for engine in range(3):
        code = SYNC(engine, posts=(Post(node, LAST),))
        yield ended(f"SEM_OVERFLOW/engine-{engine}", *many, once, code)
    yield ended("SEM_LEFT/one", once, HALT(), settled=True)
    yield ended("SEM_LEFT/many", *many, once, HALT(), settled=True)
    left = HALT(waits=(Wait(LAST, 1),))
    yield ended("SEM_LEFT/one-of-two", twice, left, settled=True)
    yield ended("SEM_LEFT/none", once, left, settled=True)
    for engine in range(3):
        code = SYNC(engine, posts=(Post(node, 0),))
        yield ended(f"SEM_LEFT/engine-{engine}", code, HALT(), settled=True)
    mate = _mate(machine, node)
    draft = Draft(machine, f"fault/{kind}.SEM_LEFT/without-program")
    draft.program(node).code += [SETA(rd=1, imm=1, posts=(Post(mate, 4),)), HALT()]
    yield draft.settled()
    draft = Draft(machine, f"fault/{kind}.SEM_LEFT/by-halt")
    draft.program(node).code += [HALT(posts=(Post(node, 4),))]
    yield draft.settled()
    draft = Draft(machine, f"fault/{kind}.SEM_LEFT/by-halt-of-two")
    draft.program(mate).code += [HALT(waits=(Wait(4, 1),))]
    draft.program(node).code += [HALT(posts=(Post(mate, 4), Post(node, 4)))]
    yield draft.settled()
    draft = Draft(machine, f"fault/{kind}.SEM_LEFT/by-halt-of-other")
    draft.program(mate).code += [HALT()]
    draft.program(node).code += [SETA(rd=1, imm=0), SYNC(1), HALT(posts=(Post(mate, 9),))]
    yield draft.settled()
    draft = Draft(machine, f"fault/{kind}.SEM_OVERFLOW/other")
    draft.program(node).code += [
        LOOP(Address(0, SEMAPHORE_MAX // 2)),
        SETA(rd=1, imm=1, posts=(Post(mate, 4), Post(mate, 4))),
        END(),
        SETA(rd=1, imm=1, posts=(Post(mate, 4),)),
        SYNC(2, posts=(Post(mate, 4),)),
    ]
    draft.program(mate).code += [SETA(rd=1, imm=0, waits=(Wait(5, 1),))]
    yield draft.finish()
    strangers = [n for n in range(MAX_NODES) if not machine_has(machine, n)]
    for stranger in strangers:
        yield ended(f"ILLEGAL/post-{stranger}", SYNC(0, posts=(Post(stranger, 0),)))
    stranger = strangers[0]
    yield ended("ILLEGAL/second-post", SYNC(0, posts=(Post(node, 0), Post(stranger, 0))))
    yield ended("ILLEGAL/post-of-halt", HALT(posts=(Post(stranger, 0),)), settled=True)


def _meetings(machine: Machine) -> Iterator[Result]:
    """Let units meet at barriers, some of them late, with work on its way."""
    units = [n.id for n in machine.nodes if n.kind in "CV"]
    draft = Draft(machine, "barrier/all")
    for number, node in enumerate(units):
        marks = Marks(draft, node, 8)
        code = marks.program.code
        code += [LOOP(Address(0, 7 * number)), ADDA(rd=1, rs=1, imm=1), END()]
        for _ in range(3):
            marks.program.settle()
            code += [BARRIER(), BARRIER()]
            code.append(ADDA(rd=2, rs=2, imm=1))
        marks.value(2, 3, 1)
    yield draft.finish()
    for node in units:
        draft = Draft(machine, f"barrier/alone-{node}")
        marks = Marks(draft, node)
        marks.program.settle()
        marks.program.code += [BARRIER(), SETA(rd=1, imm=6), BARRIER()]
        marks.value(1, 6, 2)
        yield draft.finish()
    for writer in units:
        yield _published(machine, units, writer)


def _published(machine: Machine, units: list[int], writer: int) -> Result:
    """Write memory, meet, and let everybody else read it."""
    draft = Draft(machine, f"barrier/published-by-{writer}")
    numbers = samples.fp16_bytes("published", 64)
    place = draft.data(numbers)
    shared = draft.output(8)
    kinds = {n.id: n.kind for n in machine.nodes}
    program = draft.program(writer)
    if kinds[writer] == "C":
        for buffer in "AB":
            program.chain(fill(buffer, mem=place, stride=0))
        program.chain(gemm())
        last = drain(mem=shared, stride=2)
    else:
        program.chain(vfill(mem=place, cols=64))
        last = vdrain(cols=64, mem=shared)
    program.settle()
    # Nobody waits for the drain but the barrier.
    program.code += [last, BARRIER(), BARRIER()]
    for node in units:
        if node == writer:
            continue
        reader = draft.program(node)
        reader.code.append(BARRIER())
        out = draft.output(8)
        if kinds[node] == "V":
            reader.chain(vfill(mem=shared, cols=64))
            reader.chain(vdrain(cols=64, mem=out))
        else:
            for buffer in "AB":
                reader.chain(fill(buffer, mem=shared, stride=0, rows=4, k=16))
            reader.chain(gemm())
            reader.chain(drain(mem=out, stride=2))
        reader.settle()
        reader.code.append(BARRIER())
    return draft.finish()


def _stuck(machine: Machine) -> Iterator[Result]:
    """Yield programs in which somebody waits for ever, and who of them is named."""
    cluster, core = machine.of_kind("C")[0].id, machine.of_kind("V")[0].id
    for kind, node in (("C", cluster), ("V", core)):
        never = (Wait(6, 1),)
        for name, code in (
            ("front-end", [SETA(rd=1, imm=0), SETA(rd=1, imm=0, waits=never)]),
            ("halt", [SYNC(0), HALT(waits=never)]),
            ("engine-0", [SYNC(1), SYNC(0, waits=never), SYNC(1)]),
            ("engine-1", [SYNC(1, waits=never)]),
            ("engine-2", [SYNC(0), SYNC(0), SYNC(2, waits=never)]),
            ("two-engines", [SYNC(2, waits=never), SYNC(1, waits=never)]),
            ("count", [SETA(rd=1, imm=0, posts=(Post(node, 6),)), SYNC(0, waits=(Wait(6, 2),))]),
            ("barrier-behind", [SYNC(2, waits=never), BARRIER()]),
        ):
            draft = Draft(machine, f"fault/{kind}.WATCHDOG/{name}")
            draft.program(node).code += code
            yield draft.finish()
    draft = Draft(machine, "fault/WATCHDOG/barrier-alone")
    draft.program(cluster).code += [SETA(rd=1, imm=0), BARRIER()]
    draft.program(core)
    yield draft.finish()
    draft = Draft(machine, "fault/WATCHDOG/each-other")
    draft.program(cluster).code.append(SYNC(0, waits=(Wait(0, 1),), posts=(Post(core, 0),)))
    draft.program(core).code.append(SYNC(0, waits=(Wait(0, 1),), posts=(Post(cluster, 0),)))
    yield draft.finish()
    draft = Draft(machine, "fault/WATCHDOG/first-has-halted")
    draft.program(cluster)
    draft.program(core).code += [SYNC(0), SYNC(1, waits=(Wait(0, 1),))]
    yield draft.finish()
