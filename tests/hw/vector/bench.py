"""A vector core between a memory and other units, played in Python; the golden machine beside it.

Everything on the way takes random time. Instructions of different engines run at once between
two calls of `Bench.run`; the golden machine executes the same ones after each other.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from hw.common.interfaces import Fault, code, record_of, resolved
from hw.noc.flit import Buffer, Cause, Form, Kind
from hw.sim.session import Session
from kohakuaccel.isa import Struct, Union
from kohakutpu.config import Machine
from kohakutpu.isa import Address, Extent, Instruction
from kohakutpu.model import GoldenMachine
from kohakutpu.model.execute import Execute
from kohakutpu.model.faults import Violation
from kohakutpu.model.vector import VDrain, VFill
from kohakutpu.numerics import mx
from tests.hw.flits import pack, parts, unpack
from tests.hw.memory.reference import Read

OPERATIONS = {"VFILL": VFill, "EXEC": Execute, "VDRAIN": VDrain}
ENGINES = ("VFILL", "EXEC", "VDRAIN")
NO_REGISTERS = [0] * 16
TAIL = 100  # cycles in which nothing may happen any more


def resolve(instruction: Instruction, own: int, pc: int) -> int:
    """Return the bits of `resolved`, all address registers being 0."""
    record = record_of("V", instruction.engine)
    window = {"row_extent": "rows", "col_extent": "cols"}
    members: dict[str, Any] = {"pc": pc}
    for operand in record.own:
        value, kind = getattr(instruction, operand.name), operand.kind
        if isinstance(kind, Union):
            payload: dict[str, Any] = {}
            if value.kind == "imm":
                payload = {"bits": value.bits}
            elif value.kind != "none":
                payload = {"window": {"base": value.base.imm, "stride": value.stride}}
            tag = kind.tags.index(value.kind)
            members[operand.name] = {"kind": tag, "payload": payload}
        elif isinstance(value, Address):
            members[operand.name] = value.imm
        elif isinstance(value, Extent):
            members[operand.name] = min(value.limit, getattr(instruction, window[operand.name]))
        elif operand.name == "nodes":
            alone = instruction.name == "VFILL" and value == 0
            members[operand.name] = 1 << own if alone else value
        elif isinstance(value, str):
            members[operand.name] = code(record, operand.name, value)
        else:
            assert not isinstance(kind, Struct)
            members[operand.name] = value
    return pack(resolved(record), members)


class Bench:
    """One vector core of a machine, and everybody else.

    Attributes
    ----------
    memory : bytearray
        What the hardware's WRITEs change.
    remote : dict of int to bytearray
        L1s of the other vector cores.
    entries : dict
        Words by (node, buffer, entry, lane, half) that clusters got, and if as residual.
    """

    def __init__(self, session: Session, machine: Machine, own: int, seed: int) -> None:
        self.session, self.machine, self.own = session, machine, own
        self.random = Random(seed)
        self.golden = GoldenMachine(machine, fast=False)
        self.unit = self.golden._network[own]
        self.port = machine.of_kind("M")[0].id
        self.memory = bytearray(32 * machine.dram_words)
        self.remote = {n.id: bytearray(32 * machine.vl1_words) for n in machine.of_kind("V")}
        self.entries: dict[tuple[int, int, int, int, int], tuple[int, bool]] = {}
        self.landing: deque[int] = deque()
        self.answers: deque[tuple[int, int]] = deque()  # from memory: when, what
        self.acks: list[list[deque[tuple[int, int, int]]]] = [[deque(), deque()] for _ in range(3)]
        self.todo: list[deque[int]] = [deque(), deque(), deque()]
        self.owed = [0, 0, 0]
        self.wanted: dict[int, int] = {}  # by tag: ACKs to come
        self.unacked = 0
        self.steps = [0, 0, 0]
        self.fault: tuple[str, int] | None = None
        self.patience = (0.5, 0.5, 0.5)  # odds: to send, to take, to acknowledge
        self.cycle = 0
        session.restart()
        for name, port in session.ports.items():
            if port.is_input:
                session[name] = 0
        self._offered = [False] * 3
        self._lands = False
        self._held: list[int | None] = [None, None, None]

    # ---------------------------------------------------------------- program

    def start(self, data: bytes) -> None:
        """Fill memory."""
        self.memory[: len(data)] = data
        self.golden.memory.write(0, data)

    def run(self, instructions: Sequence[Instruction], limit: int = 50_000) -> None:
        """Run instructions, those of different engines at once; none may fault."""
        for pc, instruction in enumerate(instructions):
            self.give(instruction, pc)
            self.expect(instruction)
        self.settle(limit)
        assert self.fault is None, self.fault

    def give(self, instruction: Instruction, pc: int) -> None:
        engine = instruction.engine
        assert engine is not None
        self.todo[engine].append(resolve(instruction, self.own, pc))

    def expect(self, instruction: Instruction) -> str | None:
        """Run it on the golden machine; return the cause if it faults."""
        operation = OPERATIONS[instruction.name](instruction, self.machine)
        try:
            with np.errstate(all="ignore"):
                operation.run(self.unit, operation.resolve(NO_REGISTERS))
        except Violation as violation:
            return violation.cause
        return None

    def settle(self, limit: int = 50_000) -> None:
        """Run until everything is done, and a little longer."""
        for _ in range(limit):
            if not (any(self.todo) or any(self.owed)) or self.fault:
                break
            self.step()
        else:
            raise AssertionError(f"stuck: to do {[len(t) for t in self.todo]}, owed {self.owed}")
        for _ in range(TAIL):
            self.step()
        assert self.fault or not (self.landing or self.answers or any(self.wanted.values()))

    # ------------------------------------------------------------------ cycle

    def step(self) -> None:
        s, random = self.session, self.random
        send, take, acknowledge = self.patience
        for e in range(3):
            if self.todo[e] and not self._offered[e] and random.random() < send:
                s[f"engine_{e}__i__payload"] = self.todo[e][0]
                self._offered[e] = True
            s[f"engine_{e}__i__valid"] = self._offered[e]
        if self.answers and self.answers[0][0] <= self.cycle and random.random() < send:
            self._deliver(self.answers.popleft()[1])
        if self.landing and not self._lands and random.random() < send:
            s["landing__payload"] = self.landing[0]
            self._lands = True
        s["landing__valid"] = self._lands
        for e in (0, 2):
            s[f"engine_{e}__o__ready"] = random.random() < take
            s[f"engine_{e}__ack"] = self._acknowledge(e, acknowledge)
        s.settle()
        for e in range(3):
            if self._offered[e] and s[f"engine_{e}__i__ready"]:
                self.todo[e].popleft()
                self.owed[e] += 1
                self._offered[e] = False
            if s[f"engine_{e}__done"]:
                assert self.owed[e] > 0, f"engine {e} says done and owes nothing"
                self.owed[e] -= 1
            self.steps[e] += s[f"engine_{e}__step"]
            fault = unpack(Fault, s[f"engine_{e}__fault"])
            if fault["valid"]:
                self.fault = Cause(fault["cause"]).name, fault["pc"]
        if self._lands and s["landing__ready"]:
            self.landing.popleft()
            self._lands = False
        landed = s["landed"]
        if landed & 1:
            self._owes(landed >> 1 & 15, landed >> 5 & 7, self.own)
        for e in (0, 2):
            valid, payload = s[f"engine_{e}__o__valid"], s[f"engine_{e}__o__payload"]
            assert self._held[e] in (None, payload) or not valid
            assert self._held[e] is None or valid, "a flit that was not taken was withdrawn"
            taken = valid and s[f"engine_{e}__o__ready"]
            self._held[e] = payload if valid and not taken else None
            if taken:
                self._sent(e, payload)
        s.advance()
        self.cycle += 1

    def _owes(self, requester: int, tag: int, receiver: int) -> None:
        """A receiver acknowledges."""
        assert requester == self.own
        when = self.cycle + self.random.randrange(1, 12)
        self.acks[tag >> 1][tag & 1].append((when, receiver, tag))

    def _acknowledge(self, engine: int, odds: float) -> int:
        for low in self.random.sample((0, 1), 2):
            waiting = self.acks[engine][low]
            if waiting and waiting[0][0] <= self.cycle and self.random.random() < odds:
                _, source, tag = waiting.popleft()
                self.wanted[tag] -= 1
                return 1 | source << 1 | low << 5
        return 0

    def _sent(self, engine: int, bits: int) -> None:
        members = parts(bits)
        kind, fields = Kind(members["kind"]), members["fields"]
        if kind is Kind.READ:
            read = members["word"]["read"]
            self._want(engine, read["tag"], read["nodes"])
            where = read["landing"]
            assert where["buffer"] == Buffer.VECTOR.value
            description = Read(
                read["address"], read["rows"], read["elements"], read["stride"], read["nodes"],
                Form(where["form"]), Buffer(where["buffer"]), False, where["offset"],
                where["stride"], 0, bool(read["ack"]), read["tag"], read["pc"],
            )  # fmt: skip
            assert read["ack"]
            when = self.cycle + self.random.randrange(2, 60)
            for answer in description.answer(self.memory, self.port, self.own):
                self.answers.append((when, answer))
        elif kind is Kind.WRITE:
            write = fields["write"]
            word = members["word"]["raw"].to_bytes(32, "little")
            assert write["mask"]
            for q in range(4):
                if write["mask"] >> q & 1:
                    start = 32 * write["address"] + 8 * q
                    self.memory[start : start + 8] = word[8 * q : 8 * q + 8]
            if write["ack"]:
                self._want(engine, write["tag"], 1)
                self._owes(self.own, write["tag"], self.port)
        else:
            if fields["data"]["ack"]:
                self._want(engine, fields["data"]["tag"], members["dest"])
            assert fields["data"]["requester"] == self.own
            self._deliver(bits)

    def _want(self, engine: int, tag: int, nodes: int) -> None:
        assert tag >> 1 == engine
        assert not self.wanted.get(tag), f"tag {tag} wants two ACKs at once"
        self.wanted[tag] = nodes.bit_count()

    def _deliver(self, bits: int) -> None:
        """Bring DATA or CLEAR to its receivers."""
        members = parts(bits)
        fields = members["fields"]["data"]
        where = fields["landing"]
        for node in range(16):
            if not members["dest"] >> node & 1:
                continue
            if node == self.own:
                self.landing.append(bits)
                continue
            if node in self.remote:
                assert where["buffer"] == Buffer.VECTOR.value
                self._land(self.remote[node], members)
            else:
                assert where["buffer"] in (Buffer.L1A.value, Buffer.L1B.value)
                assert where["form"] == Form.ROWS.value
                detail = where["detail"]
                key = node, where["buffer"], where["offset"], detail & 3, detail >> 2
                self.entries[key] = members["word"]["raw"], bool(where["residual"])
            if fields["ack"]:
                self._owes(fields["requester"], fields["tag"], node)

    def _land(self, l1: bytearray, members: dict[str, Any]) -> None:
        where = members["fields"]["data"]["landing"]
        assert where["form"] == Form.LINEAR.value
        if members["kind"] == Kind.DATA.value:
            start = 32 * where["offset"]
            l1[start : start + 32] = members["word"]["raw"].to_bytes(32, "little")
            return
        clear = members["word"]["clear"]
        for row in range(clear["rows"]):
            start = 32 * (where["offset"] + row * where["stride"])
            l1[start : start + 32 * clear["words"]] = bytes(32 * clear["words"])

    # ------------------------------------------------------------------ check

    def check_memory(self) -> None:
        """Compare all of memory."""
        mine = np.frombuffer(self.memory, np.uint8)
        wrong = np.flatnonzero(mine != self.golden.memory.data)
        assert not wrong.size, f"{wrong.size} bytes differ, first at word {wrong[0] // 32}"

    def check_remote(self) -> None:
        """Compare the L1s of the other vector cores."""
        for node, l1 in self.remote.items():
            if node != self.own:
                theirs = self.golden._network[node].l1.raw
                wrong = np.flatnonzero(np.frombuffer(l1, np.uint8) != theirs)
                assert not wrong.size, f"node {node}: first at word {wrong[0] // 32}"

    def check_entries(self, drain: Instruction) -> None:
        """Compare what a VDRAIN to clusters sent, quantised, with the entries there."""
        groups, blocks = -(-drain.rows // 4), -(-drain.cols // 32)
        buffer = Buffer.L1A if drain.buffer == "l1a" else Buffer.L1B
        words = -(-drain.cols // 16)
        for node in range(16):
            if not drain.nodes >> node & 1:
                continue
            codes = np.zeros((drain.rows, 32 * blocks), np.uint16)
            for row in range(drain.rows):
                for word in range(words):
                    entry = drain.mem.imm + row // 4 * drain.stride + word // 2
                    raw, residual = self.entries.pop((node, buffer.value, entry, row % 4, word % 2))
                    assert residual == drain.residual
                    start = 16 * word
                    codes[row, start : start + 16] = np.frombuffer(
                        raw.to_bytes(32, "little"), "<u2"
                    )
            unit = self.golden._network[node]
            held = (unit.l1a if drain.buffer == "l1a" else unit.l1b).read(
                drain.mem.imm, drain.stride, groups, blocks
            )
            elements, scales = mx.quantise(codes, drain.residual)
            assert (held.elements[: drain.rows].reshape(elements.shape) == elements).all()
            assert (held.scales[: drain.rows] == scales).all()
        assert not self.entries
