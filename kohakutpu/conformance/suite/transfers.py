"""Words from every unit to every other: what arrives, where, and that the post comes after it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from kohakuaccel.isa import Instruction
from kohakutpu.config import Machine, Node
from kohakutpu.conformance import dump
from kohakutpu.conformance.draft import Draft
from kohakutpu.conformance.shorthand import drain, fill, vdrain, vfill
from kohakutpu.conformance.suite import samples
from kohakutpu.conformance.suite.boundaries import Result
from kohakutpu.conformance.suite.contexts import load_entries, load_tiles, load_words
from kohakutpu.isa import SYNC, Post, Wait

ARRIVED = 0
"""The semaphore that a transfer posts at its receiver."""

READY = 1
"""The semaphore that a receiver posts when others may write."""


def cases(machine: Machine) -> Iterator[Result]:
    """Yield the cases."""
    units = [node for node in machine.nodes if node.kind in "CV"]
    for source, target in product(units, units):
        for buffer in ("vector",) if target.kind == "V" else ("l1a", "l1b"):
            yield _handed_over(machine, source, target, buffer)
    for source in units:
        yield from _multicast(machine, source, units)
        yield from _fills(machine, source)
    yield from _gathered(machine)
    yield _ring(machine, units)
    yield from _crossed(machine, units)


def _send(draft: Draft, source: Node, buffer: str, nodes: int, mem: int) -> Instruction:
    """Return the drain of 8 rows of 24 elements, with what it drains made before."""
    extents = {"stride": 3, "format": "fp16", "to": "node", "nodes": nodes, "buffer": buffer}
    if source.kind == "C":
        load_tiles(draft, source.id)
        return drain(gm=2, gn=6, mem=mem, rows=7, cols=21, acc=3, **extents)
    load_words(draft, source.id, samples.fp16_bytes(f"sent by {source.id}", 16 * 16))
    return vdrain(rows=8, l1_stride=2, cols=24, mem=mem, row_extent=7, col_extent=21, **extents)


def _background(draft: Draft, target: Node) -> None:
    if target.kind == "V":
        load_words(draft, target.id, samples.fp16_bytes("background", 16 * 90))
    else:
        for buffer in "AB":
            load_entries(draft, target.id, buffer, 20)


def _show(draft: Draft, target: Node, buffer: str, mem: int) -> None:
    if target.kind == "V":
        dump.show_words(draft, target.id, mem - 1, 26)
    else:
        side = "A" if buffer == "l1a" else "B"
        rows = draft.data(dump.unit_rows())
        program = draft.program(target.id)
        other = "B" if side == "A" else "A"
        program.chain(fill(other, mem=rows, g=dump.UNIT_ENTRIES, mode="packed"))
        dump.show_entries(draft, target.id, side, mem - 1, 8)


def _handed_over(machine: Machine, source: Node, target: Node, buffer: str) -> Result:
    """Send a tile or window to one unit; semaphores alone say when."""
    draft = Draft(machine, f"transfer/{source.kind}{source.id}-{target.kind}{target.id}/{buffer}")
    mem = 40 if target.kind == "V" else 2
    _background(draft, target)
    receiver = draft.program(target.id)
    receiver.settle()
    code = _send(draft, source, buffer, 1 << target.id, mem)
    sender = draft.program(source.id)
    sender.settle()
    ready = SYNC(1, posts=(Post(source.id, READY),))
    receiver.code.append(ready)
    posts = (Post(target.id, ARRIVED),)
    sender.code.append(code.replace(waits=(Wait(READY, 1),), posts=posts))
    receiver.code.append(SYNC(2 if target.kind == "V" else 1, waits=(Wait(ARRIVED, 1),)))
    if source.id == target.id:
        sender.enclose([], 2)
    _show(draft, target, buffer, mem)
    return draft.finish()


def _multicast(machine: Machine, source: Node, units: list[Node]) -> Iterator[Result]:
    """Send to all units of a kind, and to all but the first."""
    for kind, buffer in (("V", "vector"), ("C", "l1a"), ("C", "l1b")):
        targets = [unit for unit in units if unit.kind == kind]
        for some in (targets, targets[1:]):
            if len(some) < 2:
                continue
            names = ",".join(str(unit.id) for unit in some)
            draft = Draft(machine, f"multicast/{source.kind}{source.id}-{names}/{buffer}")
            mem = 40 if kind == "V" else 2
            for target in targets:
                _background(draft, target)
            code = _send(draft, source, buffer, sum(1 << unit.id for unit in some), mem)
            draft.meet()
            draft.program(source.id).enclose([code], 2)
            draft.meet()
            for target in targets:
                _show(draft, target, buffer, mem)
            yield draft.finish()


def _fills(machine: Machine, source: Node) -> Iterator[Result]:
    """Fill every unit of the source's kind, or every other one, from memory at once."""
    targets = list(machine.of_kind(source.kind))
    sets = {tuple(targets), tuple(t for t in targets if t != source), (targets[-1],), (source,)}
    modes = ("fp16", "residual", "packed", "transpose") if source.kind == "C" else ("rows",)
    for some in sorted(sets, key=repr):
        if not some:
            continue
        for mode in modes:
            names = ",".join(str(unit.id) for unit in some)
            draft = Draft(machine, f"fill/{source.kind}{source.id}-{names}/{mode}")
            nodes = sum(1 << unit.id for unit in some)
            numbers = draft.data(samples.fp16_bytes("filled", 16 * 64))
            for target in targets:
                _background(draft, target)
            if source.kind == "V":
                code = vfill(
                    mem=numbers + 1,
                    rows=8,
                    cols=40,
                    stride=3,
                    l1=40,
                    l1_stride=3,
                    nodes=nodes,
                    row_extent=7,
                    col_extent=33,
                )
            elif mode == "packed":
                place = draft.data(samples.packed("filled", 4, samples.WILD))
                code = fill("A", l1=2, g=2, nk=2, l1_stride=3, mem=place, mode=mode, nodes=nodes)
            else:
                code = fill(
                    "A",
                    l1=2,
                    g=2,
                    nk=2,
                    l1_stride=3,
                    mem=numbers,
                    stride=1 if mode == "transpose" else 4,
                    rows=7,
                    k=50,
                    mode="fp16" if mode == "transpose" else mode,
                    transpose=mode == "transpose",
                    nodes=nodes,
                )
            draft.meet()
            draft.program(source.id).enclose([code], 0)
            draft.meet()
            for target in targets:
                buffer, place = ("vector", 40) if source.kind == "V" else ("l1a", 2)
                _show(draft, target, buffer, place)
            yield draft.finish()


def _gathered(machine: Machine) -> Iterator[Result]:
    """Let every unit send to one at the same time, each to rows of its own."""
    senders = [node for node in machine.nodes if node.kind in "CV"]
    for target in senders:
        draft = Draft(machine, f"gather/{target.kind}{target.id}")
        step = 24 if target.kind == "V" else 6
        if target.kind == "V":
            load_words(draft, target.id, samples.fp16_bytes("background", 16 * 260))
        else:
            load_entries(draft, target.id, "A", 6 * len(senders))
        buffer = "vector" if target.kind == "V" else "l1a"
        first = 60 if target.kind == "V" else 0
        codes: dict[int, Instruction] = {}
        for number, source in enumerate(senders):
            place = first + number * step
            codes[source.id] = _send(draft, source, buffer, 1 << target.id, place)
        draft.meet()
        for source in senders:
            posts = (Post(target.id, ARRIVED),)
            draft.program(source.id).settle()
            draft.program(source.id).code.append(codes[source.id].replace(posts=posts))
        receiver = draft.program(target.id)
        waits = (Wait(ARRIVED, len(senders)),)
        receiver.code.append(SYNC(2 if target.kind == "V" else 1, waits=waits))
        receiver.enclose([], 2 if target.kind == "V" else 1)
        if target.kind == "V":
            dump.show_words(draft, target.id, first, step * len(senders))
        else:
            rows = draft.data(dump.unit_rows())
            receiver.chain(fill("B", mem=rows, g=dump.UNIT_ENTRIES, mode="packed"))
            for number in range(len(senders)):
                dump.show_entries(draft, target.id, "A", number * step, step)
        yield draft.finish()


def _ring(machine: Machine, units: list[Node]) -> Result:
    """Hand a window round all vector cores, each of which adds a row of its own."""
    cores = [unit for unit in units if unit.kind == "V"]
    draft = Draft(machine, "transfer/ring")
    for number, core in enumerate(cores):
        program = draft.program(core.id)
        load_words(draft, core.id, samples.fp16_bytes(f"ring {number}", 16), 10 + number)
        program.settle()
        following = cores[(number + 1) % len(cores)]
        if number:
            program.code.append(SYNC(2, waits=(Wait(ARRIVED, 1),)))
        code = vdrain(
            l1=10,
            rows=1,
            cols=16 * (number + 1),
            mem=10 if number + 1 < len(cores) else 40,
            to="node",
            nodes=1 << following.id,
            stride=0,
            posts=(Post(following.id, ARRIVED if number + 1 < len(cores) else READY),),
        )
        program.code.append(code)
    first = draft.program(cores[0].id)
    first.code.append(SYNC(2, waits=(Wait(READY, 1),)))
    first.enclose([], 2)
    dump.show_words(draft, cores[0].id, 40, len(cores))
    return draft.finish()


def _crossed(machine: Machine, units: list[Node]) -> Iterator[Result]:
    """Let every unit send to every other in the same moment, and post back when it has all."""
    for kind in ("V", "C"):
        group = [unit for unit in units if unit.kind == kind]
        draft = Draft(machine, f"transfer/all-to-all-{kind}")
        for target in group:
            if kind == "V":
                load_words(draft, target.id, samples.fp16_bytes("background", 16 * 260))
            else:
                load_entries(draft, target.id, "A", 6 * len(group))
        codes: dict[int, list[Instruction]] = {}
        for number, source in enumerate(group):
            codes[source.id] = []
            for target in group:
                place = (60 + 24 * number) if kind == "V" else 6 * number
                buffer = "vector" if kind == "V" else "l1a"
                code = _send(draft, source, buffer, 1 << target.id, place)
                posts = (Post(target.id, ARRIVED),)
                codes[source.id].append(code.replace(posts=posts))
        draft.meet()
        for source in group:
            program = draft.program(source.id)
            program.code += codes[source.id]
            engine = 2 if kind == "V" else 1
            program.code.append(SYNC(engine, waits=(Wait(ARRIVED, len(group)),)))
            program.enclose([], engine)
        draft.meet()
        for target in group:
            if kind == "V":
                dump.show_words(draft, target.id, 60, 24 * len(group))
            else:
                rows = draft.data(dump.unit_rows())
                draft.program(target.id).chain(
                    fill("B", mem=rows, g=dump.UNIT_ENTRIES, mode="packed")
                )
                for number in range(len(group)):
                    dump.show_entries(draft, target.id, "A", 6 * number, 6)
        yield draft.finish()
