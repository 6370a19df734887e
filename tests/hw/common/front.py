"""A front end with its fetcher and a memory for its program, and what it should do."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from numpy.typing import NDArray

from hw.common.fetch import Fetcher
from hw.common.frontend import SYNCED, FrontEnd
from hw.common.interfaces import Fault, record_of, resolved
from hw.noc.flit import PC_BITS, WORD_BITS, KickWord
from hw.sim.simulator import Simulator
from kohakutpu import isa
from kohakutpu.config import WORD_BYTES, Machine, Node
from kohakutpu.isa import Address, Destination, Extent, Flag, Source
from kohakutpu.model.program import ADDA, BAD, BARRIER, END, ENGINE, HALT, LOOP, SETA, steps
from kohakutpu.model.program import SYNCED as WAITS
from tests.hw.flits import unpack

WORDS = 512  # of the memory


class FrontBench(wiring.Component):
    """The front end, its fetcher, and memory that answers READs a word at a time.

    Programs are loaded through `load`, `address`, `word`. `gaps`, `granted`, `taken` and `lag` are
    whatever the test says, cycle by cycle: nothing may depend on them but time.
    """

    def __init__(self, machine: Machine, node: Node) -> None:
        self._machine, self._node = machine, node
        super().__init__(
            {
                "load": In(1), "address": In(range(WORDS)), "word": In(WORD_BITS),
                "start": In(1), "instructions": In(PC_BITS), "first": In(range(WORDS)),
                "answer": In(1), "accept": In(1), "granted": In(1), "taken": In(1), "posted": In(1),
                "settled": In(1), "nonzero": In(1), "release": In(1),
                "handed": Out(3), "synced": Out(SYNCED), "taking": Out(1), "posting": Out(1),
                "halted": Out(1), "arrived": Out(1), "fault": Out(Fault), "fetched": Out(1),
                "retired": Out(1),
            }
            | {f"o_{e}": Out(resolved(record_of(node.kind, e))) for e in range(3)}
        )  # fmt: skip

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.front = front = FrontEnd(self._machine, self._node)
        m.submodules.fetch = fetch = Fetcher(self._machine.instruction_buffer, self._node.id)
        m.submodules.memory = memory = Memory(shape=WORD_BITS, depth=WORDS, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        kick = Signal(KickWord)
        m.d.comb += [
            write.en.eq(self.load), write.addr.eq(self.address), write.data.eq(self.word),
            kick.address.eq(self.first << 2), kick.instructions.eq(self.instructions),
            fetch.start.eq(self.start), fetch.kick.eq(kick), front.start.eq(self.start),
            fetch.push.eq(front.push), fetch.again.eq(front.again), fetch.pop.eq(front.pop),
            front.granted.eq(self.granted & front.take), front.posted.eq(self.posted),
            front.taken.eq(Value.cast(front.hand) & self.taken.replicate(3)),
            front.settled.eq(self.settled), front.nonzero.eq(self.nonzero),
            front.release.eq(self.release),
            self.handed.eq(front.hand & front.taken), self.synced.eq(front.synced),
            self.taking.eq(front.granted), self.posting.eq(front.posting & self.posted),
            self.halted.eq(front.halted), self.arrived.eq(front.arrived),
            self.fault.eq(front.fault), self.fetched.eq(fetch.fetched),
            self.retired.eq(front.retired),
            *(getattr(self, f"o_{e}").eq(getattr(front, f"o_{e}")) for e in range(3)),
        ]  # fmt: skip
        wiring.connect(m, fetch.o, front.i)
        # One READ at a time; a word whenever `answer` says so.
        left, word, slot = Signal(8), Signal(range(WORDS)), Signal(14)
        request = fetch.read.payload.word.read
        m.d.comb += [
            fetch.read.ready.eq((left == 0) & self.accept),
            read.addr.eq(word),
            fetch.landed.valid.eq((left != 0) & self.answer),
            fetch.landed.payload.word.raw.eq(read.data),
            fetch.landed.payload.fields.data.landing.offset.eq(slot),
        ]
        with m.If(fetch.read.valid & fetch.read.ready):
            m.d.sync += [
                left.eq(request.elements >> 4),
                word.eq(request.address >> 2),
                slot.eq(request.landing.offset),
            ]
        with m.Elif(fetch.landed.valid):
            m.d.sync += [left.eq(left - 1), word.eq(word + 1), slot.eq(slot + 1)]
        return m


def outcome(
    bench: Simulator, node: Node, program: bytes, rng: np.random.Generator, cycles: int = 6000
) -> tuple[list[Any], int]:
    """Run a program and return what happened, in order, and how many words were fetched."""
    count = len(program) // WORD_BYTES
    first = int(rng.integers(0, WORDS - count + 1))
    load = np.zeros(cycles, np.uint8)
    load[:count] = 1
    address = np.zeros(cycles, np.uint16)
    address[:count] = first + np.arange(count)
    start = np.zeros(cycles, np.uint8)
    start[count] = 1

    def sometimes(odds: float) -> NDArray[np.uint8]:
        return (rng.random(cycles) < odds).astype(np.uint8)

    odds = {name: rng.choice([0.3, 0.9, 1]) for name in
            ("answer", "accept", "granted", "taken", "posted", "settled", "release")}  # fmt: skip
    out = bench.cycles(
        load=load, address=address, word=np.frombuffer(program, "<u4").reshape(count, 8),
        start=start, instructions=count, first=first, nonzero=0,
        **{name: sometimes(value) for name, value in odds.items()},
    )  # fmt: skip
    events: list[Any] = []
    busy = out["handed"] | out["taking"] << 3 | out["posting"] << 4
    for t in np.flatnonzero(busy):
        synced = unpack(SYNCED, number(out["synced"][t]))
        for engine in range(3):
            if out["handed"][t] >> engine & 1:
                if synced["is_sync"]:
                    events.append(("sync", engine, synced))
                else:
                    shape = resolved(record_of(node.kind, engine))
                    events.append((engine, unpack(shape, number(out[f"o_{engine}"][t])), synced))
    fault = unpack(Fault, number(out["fault"][-1]))
    if fault["valid"]:
        events.append(("fault", fault["cause"], fault["pc"]))
    elif out["halted"][-1]:
        events.append("halted")
    else:
        events.append("running")
    events.append(("controls", int(out["taking"].sum()), int(out["posting"].sum())))
    return events, int(out["fetched"].sum())


def number(value: Any) -> int:
    return int.from_bytes(np.asarray(value).tobytes(), "little")


def expected(machine: Machine, node: Node, program: bytes, limit: int) -> list[Any] | None:
    """Return the same from the golden machine's steps and `isa`; None beyond `limit` of them."""
    todo = steps(program, node.kind, machine)
    a, loops, pc = [0] * 16, [], 0
    events: list[Any] = []
    taking = posting = 0
    for _ in range(limit):
        step = todo[pc]
        word = program[pc * WORD_BYTES : (pc + 1) * WORD_BYTES]
        here = pc
        code = step[0]
        if code == BAD:
            cause = CAUSES.index(step[1])
            return [*events, ("fault", cause, pc), ("controls", taking, posting)]
        instruction = isa.decode(node.kind, word)
        if code == ENGINE:
            synced = {"is_sync": 0, "waits": waits(instruction), "posts": posts(instruction)}
            synced["pc"] = pc
            if instruction.name == "SYNC":
                events.append(("sync", instruction.engine, synced | {"is_sync": 1}))
            else:
                members = dict(operands(instruction, a, node))
                events.append((instruction.engine, members | {"pc": pc}, synced))
            pc += 1
            continue
        if code == WAITS:
            step = step[3]
            code = step[0]
        taking += 1
        posting += 1
        if code == SETA:
            a[step[1]] = step[2]
        elif code == ADDA:
            value = (a[step[2]] + step[3]) % 2**34
            a[step[1]] = value - step[4] if step[4] and value >= step[4] else value
        elif code == LOOP:
            count = (a[step[1]] + step[2]) % 2**34
            if count:
                loops.append(count)
            else:
                pc = step[3] - 1
        elif code == END:
            if loops[-1] > 1:
                loops[-1] -= 1
                pc = step[1] - 1
            else:
                loops.pop()
        elif code == HALT:
            return [*events, "halted", ("controls", taking, posting)]
        else:
            assert code == BARRIER
        pc += 1
        assert here < len(todo)
    return None


CAUSES = ("NONE", "ILLEGAL", "LOOP_DEPTH")


def waits(instruction: isa.Instruction) -> Any:
    found = [{"valid": 1, "semaphore": w.semaphore, "count": w.count} for w in instruction.waits]
    return slots(found, {"valid": 0, "semaphore": 0, "count": 0})


def posts(instruction: isa.Instruction) -> Any:
    found = [{"valid": 1, "node": p.node, "semaphore": p.semaphore} for p in instruction.posts]
    return slots(found, {"valid": 0, "node": 0, "semaphore": 0})


def slots(found: list[dict[str, int]], empty: dict[str, int]) -> dict[int, dict[str, int]]:
    return dict(enumerate((found + [empty] * 2)[:2]))


def operands(instruction: isa.Instruction, a: Sequence[int], node: Node) -> Iterator[Any]:
    """Resolve operands one by one, plainly."""
    record = instruction.record

    def address(value: Address, local: bool) -> int:
        result = (a[value.reg] + value.imm) % 2**34
        return min(result, 1 << 14) if local else result

    for operand in record.own:
        value = getattr(instruction, operand.name)
        if isinstance(value, (Source, Destination)):
            bits = getattr(value, "bits", 0)
            if value.kind not in ("none", "imm"):
                bits = address(value.base, True) | value.stride << 15
            window = {"base": bits & 0x7FFF, "stride": bits >> 15 & 0x3FFF}
            number = operand.kind.tags.index(value.kind)  # pyright: ignore
            yield operand.name, {"kind": number, "payload": {"bits": bits, "window": window}}
        elif isinstance(value, Address):
            yield operand.name, address(value, operand.name != "mem")
        elif isinstance(value, Extent):
            position = a[value.reg] - (2**34 if a[value.reg] >= 2**33 else 0)
            size = window_of(instruction, operand.name)
            left = max(0, min(size, value.limit - position))
            if record.name == "DRAIN" and (instruction.to, instruction.order) == ("memory", "tile"):
                left = size
            yield operand.name, left
        elif isinstance(value, Flag):
            yield operand.name, int(value.imm or a[value.reg] != 0)
        elif operand.name == "nodes" and record.name in ("FILL", "VFILL"):
            yield operand.name, value or 1 << node.id
        else:
            yield operand.name, operand.kind.encode(value)


def window_of(i: isa.Instruction, name: str) -> int:
    match i.name, name:
        case "FILL", "rows":
            return 4 * i.g
        case "FILL", "k":
            return 32 * i.nk
        case "DRAIN", "rows":
            return 4 * i.gm
        case "DRAIN", "cols":
            return 4 * i.gn
        case _, "row_extent":
            return i.rows
        case _:
            return i.cols
