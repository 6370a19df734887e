"""A cluster's datapath among memory and peers that are written in Python.

Memory answers READs, peers take DATA and CLEAR; both acknowledge when it pleases them. What the
datapath sends itself comes back to it. The order between two nodes is kept, nothing else.
"""

from collections import defaultdict, deque
from random import Random
from typing import Any

from hw.common.interfaces import record_of, resolved
from hw.noc.flit import READ_CREDITS, Buffer, Cause, Form, Kind
from hw.sim.session import Session
from kohakuaccel.isa import Enumeration
from kohakutpu.config import Machine
from tests.hw.cluster.reference import Source, Write
from tests.hw.flits import pack, parts
from tests.hw.memory.reference import Read

ENGINES = {"FILL": 0, "GEMM": 1, "DRAIN": 2}
LAYOUTS = [resolved(record_of("C", engine)) for engine in range(3)]


def arguments(instruction: Any, own: int, pc: int) -> int:
    """Return what the shell hands an engine, with all registers 0."""
    engine = instruction.engine
    members: dict[str, Any] = {"pc": pc}
    for operand in record_of("C", engine).own:
        value = getattr(instruction, operand.name)
        if hasattr(value, "limit"):
            whole = window(instruction, operand.name)
            value = whole if without_extents(instruction) else min(value.limit, whole)
        elif hasattr(value, "imm"):
            value = value.imm
        elif isinstance(operand.kind, Enumeration):
            value = operand.kind.names.index(value)
        members[operand.name] = value
    if engine == 0 and not members["nodes"]:
        members["nodes"] = 1 << own
    return pack(LAYOUTS[engine], members)


def window(instruction: Any, extent: str) -> int:
    if instruction.engine == 0:
        return 4 * instruction.g if extent == "rows" else 32 * instruction.nk
    return 4 * (instruction.gm if extent == "rows" else instruction.gn)


def without_extents(instruction: Any) -> bool:
    return instruction.name == "DRAIN" and (instruction.to, instruction.order) == ("memory", "tile")


class Peer:
    """A unit that takes what is sent to it: words of a vector L1, or entries."""

    def __init__(self) -> None:
        self.words: dict[int, int] = {}
        self.writes: list[Write] = []
        self.sources: dict[int, Source] = defaultdict(Source)

    def take(self, bits: int) -> None:
        members = parts(bits)
        landing = members["fields"]["data"]["landing"]
        if landing["buffer"] == Buffer.VECTOR.value:
            assert members["kind"] == Kind.DATA.value
            assert landing["form"] == Form.LINEAR.value
            self.words[landing["offset"]] = members["word"]["raw"]
        else:
            events = self.sources[members["source"]].events(members)
            self.writes += [event for event in events if isinstance(event, Write)]


class Bench:
    """The datapath, clocked.

    Attributes
    ----------
    memory : bytearray
        What READs see and WRITEs change.
    waiting : list of deque
        Instructions for each engine that may be offered, as (args, id).
    done : list of int
        Ids in the order of completion, engine by engine.
    faults : list of (engine, cause, pc)
        Those that are shown, by the datapath or by memory.
    """

    def __init__(
        self, session: Session, machine: Machine, node: int, memory: bytearray, seed: int,
        *, stall: float = 0.0, latency: tuple[int, int] = (20, 40),
    ) -> None:  # fmt: skip
        self.session, self.machine, self.node = session, machine, node
        self.memory, self.random = memory, Random(seed)
        self.stall, self.latency = stall, latency
        self.port = machine.of_kind("M")[0].id
        self.peers = {n.id: Peer() for n in machine.nodes if n.kind in "CV" and n.id != node}
        self.waiting: list[deque[tuple[int, int]]] = [deque() for _ in range(3)]
        self.started: list[deque[int]] = [deque() for _ in range(3)]
        self.done: list[int] = []
        self.faults: list[tuple[int, int, int]] = []
        self.reads: deque[tuple[int, list[int]]] = deque()  # when, and the answer
        self.landing: dict[int, deque[int]] = defaultdict(deque)
        self.acks: list[tuple[int, int, int]] = []  # when, engine, low bit of the tag
        self.steps = [0, 0, 0]
        self._offered = [False] * 3
        self._from: int | None = None

    @property
    def now(self) -> int:
        return self.session.cycle

    def _later(self) -> int:
        return self.now + self.random.randint(*self.latency)

    def _chance(self) -> bool:
        return not self.stall or self.random.random() >= self.stall

    def step(self) -> None:
        """One cycle."""
        session = self.session
        for engine, queue in enumerate(self.waiting):
            self._offered[engine] |= bool(queue) and self._chance()
            if self._offered[engine]:
                session[f"engine_{engine}__i__payload"] = queue[0][0]
            session[f"engine_{engine}__i__valid"] = self._offered[engine]
        room = len(self.reads) < READ_CREDITS
        accepts = {0: room and self._chance(), 2: self._chance()}
        for engine, accept in accepts.items():
            session[f"engine_{engine}__o__ready"] = accept
            self._acknowledge(engine)
        if self.reads and self.reads[0][0] <= self.now and self._chance():
            answer = self.reads[0][1]
            self._deliver(answer.pop(0))
            if not answer:
                self.reads.popleft()
        if self._from is None and self._chance():
            sources = [node for node, queue in self.landing.items() if queue]
            if sources:
                self._from = self.random.choice(sources)
                session["landing__payload"] = self.landing[self._from][0]
        session["landing__valid"] = self._from is not None
        session.settle()
        self._observe(accepts)
        session.advance()

    def _observe(self, accepts: dict[int, bool]) -> None:
        session = self.session
        if self._from is not None and session["landing__ready"]:
            self.landing[self._from].popleft()
            self._from = None
        landed = session["landed"]
        if landed & 1:
            assert landed >> 1 & 15 == self.node
            self._ack_for(landed >> 5)
        for engine, accept in accepts.items():
            if accept and session[f"engine_{engine}__o__valid"]:
                self._sent(session[f"engine_{engine}__o__payload"], engine)
        for engine in range(3):
            self.steps[engine] += session[f"engine_{engine}__step"]
            if self._offered[engine] and session[f"engine_{engine}__i__ready"]:
                self.started[engine].append(self.waiting[engine].popleft()[1])
                self._offered[engine] = False
            if session[f"engine_{engine}__done"]:
                self.done.append(self.started[engine].popleft())
            fault = session[f"engine_{engine}__fault"]
            if fault & 1:
                self.faults.append((engine, fault >> 1 & 15, fault >> 5))

    def _acknowledge(self, engine: int) -> None:
        session = self.session
        due = [ack for ack in self.acks if ack[1] == engine and ack[0] <= self.now]
        session[f"engine_{engine}__ack"] = 0
        if due:
            ack = min(due)
            self.acks.remove(ack)
            session[f"engine_{engine}__ack"] = 1 | ack[2] << 5

    def _ack_for(self, tag: int) -> None:
        self.acks.append((self._later(), tag >> 1, tag & 1))

    def _sent(self, bits: int, engine: int) -> None:
        members = parts(bits)
        kind = Kind(members["kind"])
        if kind is Kind.READ:
            read = members["word"]["read"]
            landing = read["landing"]
            request = Read(
                address=read["address"], rows=read["rows"], elements=read["elements"],
                stride=read["stride"], nodes=read["nodes"], form=Form(landing["form"]),
                buffer=Buffer(landing["buffer"]), residual=bool(landing["residual"]),
                offset=landing["offset"], l1_stride=landing["stride"], nk=landing["detail"],
                ack=bool(read["ack"]), tag=read["tag"], pc=read["pc"],
            )  # fmt: skip
            last, length = request.bytes_of(request.rows - 1)
            if last + length > len(self.memory):
                self.faults.append((engine, Cause.MEMORY.value, request.pc))
            else:
                answer = request.answer(self.memory, self.port, self.node)
                self.reads.append((self._later(), answer))
        elif kind is Kind.WRITE:
            write, word = members["fields"]["write"], members["word"]["raw"]
            assert write["mask"]
            if write["address"] >= self.machine.dram_words:
                self.faults.append((engine, Cause.MEMORY.value, write["pc"]))
                return
            for quarter in range(4):
                if write["mask"] >> quarter & 1:
                    at = 32 * write["address"] + 8 * quarter
                    self.memory[at : at + 8] = word.to_bytes(32, "little")[8 * quarter :][:8]
            if write["ack"]:
                self._ack_for(write["tag"])
        else:
            assert members["fields"]["data"]["requester"] == self.node
            assert members["fields"]["data"]["tag"] >> 1 == engine
            self._deliver(bits | self.node << 16)

    def _deliver(self, bits: int) -> None:
        """Give a copy to every receiver; peers land at once and say so later."""
        members = parts(bits)
        data = members["fields"]["data"]
        for node in range(16):
            if members["dest"] >> node & 1:
                if node == self.node:
                    self.landing[members["source"]].append(bits)
                    continue
                self.peers[node].take(bits)
                if data["ack"]:
                    self._ack_for(data["tag"])

    def run(self, instructions: list[int], patience: int = 20_000) -> None:
        """Run until all ids are done or a fault is shown."""
        for _ in range(patience):
            if len(self.done) == len(instructions) or self.faults:
                return
            self.step()
        raise AssertionError(f"done {sorted(self.done)} of {instructions}")
