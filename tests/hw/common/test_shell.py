"""Shells, control node, mesh and memory ports of a whole machine, with datapaths that do little."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hw.sim import machine as sim
from kohakutpu import isa
from kohakutpu.config import WORD_BYTES, Machine, preset
from kohakutpu.devices.host import Host, Outcome
from kohakutpu.isa import Address, Destination, Extent, Flag, Instruction, Post, Source, Wait
from tests.hw.common.dummy import Dummy

pytestmark = pytest.mark.cocotb

TINY = preset("tiny")
C, V = 0, 1
WORDS = 1 << 12
DATA = 1 << 11  # word
ORIGIN = Address(0, 0)
NONE = Extent(0, 0)


@cache
def library(machine: Machine) -> Path:
    return sim.build(machine, Dummy, f"dummy-{machine.name}")


def host(watchdog: int = 2000, machine: Machine = TINY, **options: Any) -> Host:
    simulated = sim.SimulatedMachine(machine, library(machine), memory_words=WORDS, **options)
    return Host(machine, simulated, watchdog)


def run(host: Host, programs: Mapping[int, Sequence[Instruction | bytes]]) -> Outcome:
    table, address = [], 0
    for node, program in programs.items():
        words = b"".join(i if isinstance(i, bytes) else isa.encode(i) for i in program)
        host.target.memory[address : address + len(words)] = np.frombuffer(words, np.uint8)
        table.append((node, address, len(words) // WORD_BYTES))
        address += len(words)
    assert address <= DATA * WORD_BYTES
    return host.run(table)


def load(kind: str, word: int, nodes: int = 0, reg: int = 0, **synced: Any) -> Instruction:
    if kind == "V":
        return isa.VFILL(Address(reg, 4 * word), 0, ORIGIN, 0, 1, NONE, 16, NONE, "fp16", nodes,
                         **synced)  # fmt: skip
    return isa.FILL("A", ORIGIN, 0, Address(reg, 4 * word), 0, 1, 1, NONE, NONE, "fp16",
                    nodes=nodes, **synced)  # fmt: skip


def store(kind: str, word: int, reg: int = 0, **synced: Any) -> Instruction:
    mem = Address(reg, 4 * word)
    if kind == "V":
        return isa.VDRAIN(ORIGIN, 0, 1, NONE, 16, NONE, "fp16", "row", "memory", mem, 0, **synced)
    return isa.DRAIN(ORIGIN, 1, 1, "memory", mem, 0, NONE, NONE, "fp16", "row", **synced)


def work(kind: str, cycles: int, **synced: Any) -> Instruction:
    if kind == "V":
        return isa.EXEC(cycles, 1, "mac", Source.imm(1), dst=Destination.reg(ORIGIN, 1), **synced)
    return isa.GEMM(ORIGIN, ORIGIN, ORIGIN, cycles, 1, 1, 0, 0, Flag(False, 0), **synced)


def copies(kind: str, node: int, first: int, to: int, count: int) -> list[Instruction]:
    """Copy words one by one, each ring of engines hand in hand."""
    return [
        isa.SYNC(1, posts=(Post(node, 2),)),
        isa.LOOP(Address(0, count)),
        load(kind, first, reg=1, waits=(Wait(2),), posts=(Post(node, 0),)),
        work(kind, 3, waits=(Wait(0),), posts=(Post(node, 1),)),
        store(kind, to, reg=1, waits=(Wait(1),), posts=(Post(node, 2),)),
        isa.ADDA(1, 1, 4),
        isa.END(),
        isa.SYNC(0, waits=(Wait(2),)),
        isa.HALT(),
    ]


@pytest.mark.parametrize("stalls", [0, 1, 77])
def test_words_go_round(stalls: int) -> None:
    bench = host(stalls=stalls)
    words = np.random.default_rng(stalls).integers(0, 256, (64, WORD_BYTES), np.uint8)
    memory = bench.target.memory.reshape(-1, WORD_BYTES)
    memory[DATA : DATA + 64] = words
    ends = []
    for _ in range(3):
        memory[DATA + 64 : DATA + 200] = 0
        outcome = run(
            bench,
            {
                C: copies("C", C, DATA, DATA + 100, 20),
                V: copies("V", V, DATA + 20, DATA + 150, 30),
            },
        )
        assert outcome.fault is None
        assert (memory[DATA + 100 : DATA + 120] == words[:20]).all()
        assert (memory[DATA + 150 : DATA + 180] == words[20:50]).all()
        ends.append((outcome.cycles, outcome.counters))
    if not stalls:
        assert ends[0] == ends[1] == ends[2]
    for node, count in ((C, 20), (V, 30)):
        counted = ends[0][1][node]
        assert counted["instructions"] == 4 + 5 * count
        assert counted["fetched"] == 9
        assert counted["read"] == counted["written"] == counted["steps_0"] == count
        assert counted["steps_1"] == 3 * count
        for engine in range(3):
            busy, stalled = counted[f"busy_{engine}"], counted[f"stalled_{engine}"]
            assert busy > 0
            assert busy + stalled <= ends[0][0]


def test_barrier_waits_for_everybody() -> None:
    # The cluster writes late; the vector core reads what it wrote only after the barrier.
    bench = host()
    memory = bench.target.memory.reshape(-1, WORD_BYTES)
    memory[DATA] = np.arange(WORD_BYTES)
    slow = [work("C", 900, posts=(Post(C, 3),)), store("C", DATA + 1, waits=(Wait(3),))]
    outcome = run(
        bench,
        {
            C: [load("C", DATA), isa.BARRIER(), *slow, isa.BARRIER(), isa.HALT()],
            V: [isa.BARRIER(), isa.BARRIER(), load("V", DATA + 1, posts=(Post(V, 0),)),
                store("V", DATA + 2, waits=(Wait(0),)), isa.HALT()],
        },
    )  # fmt: skip
    assert outcome.fault is None
    assert outcome.cycles > 900
    assert (memory[DATA + 2] == np.arange(WORD_BYTES)).all()


def test_posts_cross_the_mesh_and_wait_for_work() -> None:
    bench = host()
    memory = bench.target.memory.reshape(-1, WORD_BYTES)
    memory[DATA] = 7
    outcome = run(
        bench,
        {
            V: [isa.SETA(1, 5, waits=(Wait(9, 2),)), load("V", DATA + 1, posts=(Post(V, 0),)),
                store("V", DATA + 2, waits=(Wait(0),), posts=(Post(C, 31),)), isa.HALT()],
            C: [load("C", DATA, posts=(Post(C, 0),)),
                store("C", DATA + 1, waits=(Wait(0),), posts=(Post(V, 9), Post(V, 9))),
                isa.SETA(1, 0, waits=(Wait(31),)), isa.HALT()],
        },
    )  # fmt: skip
    assert outcome.fault is None
    assert (memory[DATA + 2] == 7).all()


def test_an_instruction_waits_while_the_one_before_it_runs() -> None:
    posted = isa.SYNC(0, posts=(Post(V, 1),))
    program = [work("V", 300), work("V", 5, waits=(Wait(1),)), posted, isa.HALT()]
    outcome = run(host(), {V: program})
    assert outcome.fault is None
    assert outcome.counters[V]["busy_1"] >= 305
    assert outcome.counters[V]["stalled_1"] == 0


GOOD = {C: [isa.HALT()], V: copies("V", V, DATA, DATA + 100, 3)}
FAULTS: list[tuple[str, dict[int, list[Any]], tuple[int, int, str]]] = [
    ("illegal", {C: [isa.SETA(1, 1), bytes(32)], V: [isa.HALT()]}, (C, 1, "ILLEGAL")),
    ("past the end", {C: [isa.SETA(1, 1)], V: [isa.HALT()]}, (C, 1, "LOOP_DEPTH")),
    ("engine", {V: [isa.SETA(1, 1), work("V", 1000), isa.HALT()]}, (V, 1, "L1_RANGE")),
    ("read past memory", {V: [load("V", WORDS), isa.HALT()]}, (V, 0, "MEMORY")),
    ("write past memory", {C: [isa.END()] * 0 + [store("C", WORDS), isa.HALT()]}, (C, 0, "MEMORY")),
    ("left at halt", {C: [isa.SYNC(1, posts=(Post(C, 4),)), isa.HALT()]}, (C, 1, "SEM_LEFT")),
    ("posted at halt", {C: [isa.HALT(posts=(Post(C, 4),))]}, (C, 0, "SEM_LEFT")),
    ("posted to one that never ran", {C: [isa.HALT(posts=(Post(V, 4),))]}, (V, 0, "SEM_LEFT")),
    ("posted to one that halted",
     {V: [isa.HALT()], C: [work("C", 500, posts=(Post(V, 1),)), isa.HALT()]}, (V, 0, "SEM_LEFT")),
    ("overflow from next door",
     {V: [isa.SETA(1, 1), isa.LOOP(Address(0, 256)), isa.SYNC(0, posts=(Post(C, 1),)), isa.END(),
          isa.HALT()], C: [work("C", 999), isa.BARRIER(), isa.HALT()]}, (V, 2, "SEM_OVERFLOW")),
    ("overflow at home",
     {V: [isa.LOOP(Address(0, 128)), isa.ADDA(1, 1, 1, posts=(Post(V, 1), Post(V, 1))), isa.END(),
          isa.HALT()]}, (V, 1, "SEM_OVERFLOW")),
    ("deadlock of the front end", {C: [isa.HALT()], V: [isa.SETA(1, 1, waits=(Wait(1),))]},
     (V, 0, "WATCHDOG")),
    ("deadlock of an engine",
     {C: [isa.HALT()], V: [work("V", 5), work("V", 5, waits=(Wait(1),)), isa.HALT()]},
     (V, 1, "WATCHDOG")),
    ("deadlock at the barrier", {C: [isa.HALT()], V: [isa.BARRIER(), isa.HALT()]},
     (V, 0, "WATCHDOG")),
]  # fmt: skip


@pytest.mark.parametrize("name", [name for name, _, _ in FAULTS])
def test_faults_and_a_good_program_after(name: str) -> None:
    programs, wanted = next((p, w) for n, p, w in FAULTS if n == name)
    bench = host()
    for _ in range(2):
        outcome = run(bench, programs)
        assert outcome.fault == wanted
        assert run(bench, GOOD).fault is None


def test_memory_errors() -> None:
    bench = host(errors=(DATA + 5, DATA + 6))
    for program, pc in (([isa.SETA(1, 0), load("V", DATA + 5), isa.HALT()], 1),
                        ([store("V", DATA + 5), isa.HALT()], 0)):  # fmt: skip
        assert run(bench, {V: program}).fault == (V, pc, "MEMORY")
        assert run(bench, GOOD).fault is None


def test_registers() -> None:
    bench = host()
    simulated = bench.target
    with pytest.raises(sim.BusError, match=r"0x40.*response 2"):
        simulated.read(0x40)
    with pytest.raises(sim.BusError, match=r"to 0x20: response 2"):
        simulated.write(0x20, 1)
    simulated.write(0x14, 16)
    with pytest.raises(sim.BusError, match=r"writing 0x11 to 0x14: response 2"):
        simulated.write(0x14, 17)
    assert simulated.read(0x14) == 16
    assert simulated.read(0x18) == 2000


def test_the_host_stops_a_run() -> None:
    bench = host(watchdog=1 << 31)
    endless = [isa.LOOP(Address(0, (1 << 24) - 1)), work("V", 900), isa.END(), isa.HALT()]
    polls = []

    def stop(cycles: int) -> None:
        polls.append(cycles)
        if len(polls) == 2:
            bench.target.write(0x1C, 2)

    words = b"".join(map(isa.encode, endless))
    bench.target.memory[: len(words)] = np.frombuffer(words, np.uint8)
    outcome = bench.run([(V, 0, 4)], progress=stop)
    assert outcome.fault is not None
    assert outcome.fault[2] == "WATCHDOG"
    assert run(bench, GOOD).fault is None


@pytest.mark.slow
@pytest.mark.parametrize("stalls", [0, 5])
def test_eight_units_and_two_ports(stalls: int) -> None:
    """Each writes a word, reads its neighbour's after a barrier; one reads for all of a kind."""
    quad = preset("quad")
    bench = host(machine=quad, stalls=stalls)
    memory = bench.target.memory.reshape(-1, WORD_BYTES)
    units = [node for node in quad.nodes if node.kind in "CV"]
    memory[DATA : DATA + 8] = np.random.default_rng(2).integers(0, 256, (8, WORD_BYTES))
    everybody = {kind: sum(1 << node.id for node in quad.of_kind(kind)) for kind in "CV"}
    firsts = {kind: quad.of_kind(kind)[0].id for kind in "CV"}

    def move(node: int, kind: str, source: int, to: int, semaphore: int) -> list[Instruction]:
        return [load(kind, source, posts=(Post(node, semaphore),)),
                store(kind, to, waits=(Wait(semaphore),))]  # fmt: skip

    programs = {}
    for index, node in enumerate(units):
        neighbour = (index + 1) % 8
        share = []
        if node.id == firsts[node.kind]:
            told = tuple(Post(n.id, 9) for n in quad.of_kind(node.kind))
            share = [load(node.kind, DATA, nodes=everybody[node.kind], posts=told[:2]),
                     isa.SYNC(0, posts=told[2:])]  # fmt: skip
        programs[node.id] = [
            *move(node.id, node.kind, DATA + index, DATA + 16 + index, 0),
            isa.BARRIER(),
            *move(node.id, node.kind, DATA + 16 + neighbour, DATA + 32 + index, 1),
            isa.BARRIER(),
            *share,
            store(node.kind, DATA + 48 + index, waits=(Wait(9),)),
            isa.HALT(),
        ]
    for _ in range(3):
        memory[DATA + 8 :] = 0
        outcome = run(bench, programs)
        assert outcome.fault is None
        assert (memory[DATA + 16 : DATA + 24] == memory[DATA : DATA + 8]).all()
        assert (memory[DATA + 32 : DATA + 40] == np.roll(memory[DATA : DATA + 8], -1, 0)).all()
        assert (memory[DATA + 48 : DATA + 56] == memory[DATA]).all()
        assert all(counted["instructions"] >= 7 for counted in outcome.counters.values())
