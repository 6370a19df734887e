"""Control instructions, as seen in memory, in counters and in faults."""

import numpy as np
import pytest

from kohakutpu import isa
from kohakutpu.config import preset
from kohakutpu.isa import Address, Post, Wait
from kohakutpu.model import Deadlock, Fault, GoldenMachine
from tests.model.support import DATA, at, full, run

TINY = preset("tiny")
C, V = 0, 1


@pytest.fixture(params=[None, 0, 1, 2, 3], ids=lambda s: f"seed{s}")
def golden(request: pytest.FixtureRequest) -> GoldenMachine:
    return GoldenMachine(TINY, memory_words=1 << 14, seed=request.param)


def copy_word(source: Address, target: Address) -> list[isa.Instruction]:
    """Vector core instructions that copy one word of memory through L1 word 0."""
    window = {"l1": at(0), "l1_stride": 1, "rows": 1, "row_extent": full(1), "cols": 16}
    window |= {"col_extent": full(16), "format": "fp16"}
    return [
        isa.SYNC(2, posts=(Post(V, 1),)),
        isa.SYNC(0, waits=(Wait(1),)),
        isa.VFILL(mem=source, stride=0, **window, posts=(Post(V, 0),)),
        isa.VDRAIN(
            **window, order="row", to="memory", mem=target, stride=0, waits=(Wait(0),),
        ),
    ]  # fmt: skip


def test_loop_runs_its_body_count_times_with_ring_addresses(golden: GoldenMachine) -> None:
    # Copies word i of the source to word (3 * i) % 7 of the target, five times.
    source = np.arange(5 * 16, dtype=np.uint16).reshape(5, 16)
    golden.memory.write(DATA, source)
    report = run(
        golden,
        {
            V: [
                isa.SETA(1, DATA // 8),
                isa.SETA(3, 1),
                isa.LOOP(Address(3, 4)),
                *copy_word(Address(1, 0), Address(2, 2 * DATA // 8)),
                isa.ADDA(1, 1, 4),
                isa.ADDA(2, 2, 12, modulo=28),
                isa.END(),
                isa.HALT(),
            ]
        },
    )
    target = golden.memory.read(2 * DATA, 7 * 32).view(np.uint16).reshape(7, 16)
    expected = np.zeros((7, 16), np.uint16)
    for i in range(5):
        expected[3 * i % 7] = source[i]
    np.testing.assert_array_equal(target, expected)
    assert report.instructions == 3 + 5 * 7 + 1
    assert report.fetched_words == 11
    assert (report.read_words, report.written_words, report.noc_words) == (5, 5, 10)


def test_loop_of_zero_is_skipped_with_what_it_holds(golden: GoldenMachine) -> None:
    report = run(
        golden,
        {V: [isa.LOOP(at(0)), isa.LOOP(at(3)), isa.BARRIER(), isa.END(), isa.END(), isa.HALT()]},
    )
    assert report.instructions == 2


def test_nested_loops_and_refetch(golden: GoldenMachine) -> None:
    inner = [isa.ADDA(1, 1, 1)] * 10
    outer = [isa.LOOP(at(3)), *inner, isa.END(), *[isa.ADDA(2, 2, 1)] * 60]
    report = run(golden, {V: [isa.LOOP(at(4)), *outer, isa.END(), isa.HALT()]})
    assert report.instructions == 1 + 4 * (1 + 3 * 11 + 60 + 1) + 1
    # The outer body, 73 words with its END, does not fit the 64 of the instruction buffer.
    assert report.fetched_words == 75 + 3 * 73


def test_eight_loops_nest_and_nine_do_not(golden: GoldenMachine) -> None:
    def nest(depth: int) -> list[isa.Instruction]:
        return [*[isa.LOOP(at(2))] * depth, *[isa.END()] * depth, isa.HALT()]

    assert run(golden, {V: nest(8)}).instructions == sum(2**i for i in range(1, 9)) * 2 + 1 - 255
    with pytest.raises(Fault) as caught:
        run(golden, {V: nest(9)})
    assert (caught.value.cause, caught.value.node, caught.value.pc) == ("LOOP_DEPTH", V, 8)
    assert caught.value.numbers == {"depth": 9}


@pytest.mark.parametrize(
    ("program", "pc"),
    [
        ([isa.END(), isa.HALT()], 0),
        ([isa.SETA(1, 1)], 1),
        ([isa.LOOP(at(0)), isa.HALT()], 2),
    ],
)
def test_broken_structure(golden: GoldenMachine, program: list[isa.Instruction], pc: int) -> None:
    with pytest.raises(Fault, match="LOOP_DEPTH") as caught:
        run(golden, {V: program})
    assert caught.value.pc == pc


@pytest.mark.parametrize("word", [bytes(32), b"\xff" * 32, isa.encode(isa.HALT())[:31] + b"\x80"])
def test_illegal_word_faults_when_it_is_reached(golden: GoldenMachine, word: bytes) -> None:
    run(golden, {V: [isa.HALT(), word]})
    run(golden, {V: [isa.LOOP(at(0)), word, isa.END(), isa.HALT()]})
    with pytest.raises(Fault) as caught:
        run(golden, {V: [isa.SETA(1, 1), word, isa.HALT()]})
    assert (caught.value.cause, caught.value.node, caught.value.pc) == ("ILLEGAL", V, 1)


def test_instruction_of_the_other_kind_is_illegal(golden: GoldenMachine) -> None:
    gemm = isa.GEMM(
        a=at(0), b=at(0), acc=at(0), gm=1, gn=1, nk=1, a_stride=1, b_stride=1,
        accumulate=isa.Flag(False, 0),
    )  # fmt: skip
    with pytest.raises(Fault, match="ILLEGAL"):
        run(golden, {V: [gemm, isa.HALT()]})


def test_semaphore_left_at_halt(golden: GoldenMachine) -> None:
    with pytest.raises(Fault) as caught:
        run(golden, {V: [isa.SYNC(0, posts=(Post(V, 5), Post(V, 5))), isa.HALT()]})
    assert (caught.value.cause, caught.value.pc) == ("SEM_LEFT", 1)
    assert caught.value.numbers == {"semaphore 5": 2}


def test_post_after_halt_of_its_receiver_is_left_over(golden: GoldenMachine) -> None:
    late = [isa.LOOP(at(500)), isa.END(), isa.SYNC(0, posts=(Post(C, 2),)), isa.HALT()]
    with pytest.raises(Fault, match="SEM_LEFT") as caught:
        run(golden, {C: [isa.HALT()], V: late})
    assert caught.value.node == C


def test_post_to_a_unit_that_does_not_run_is_left_over(golden: GoldenMachine) -> None:
    with pytest.raises(Fault, match="SEM_LEFT at unit 0, instruction 0: semaphore 2 holds 1"):
        run(golden, {V: [isa.SYNC(0, posts=(Post(C, 2),)), isa.HALT()]})


def test_semaphore_overflow(golden: GoldenMachine) -> None:
    # Control instructions post too; 255 is still held.
    fine = [
        isa.LOOP(at(255)), isa.END(posts=(Post(V, 3),)),
        isa.LOOP(at(17)), isa.END(waits=(Wait(3, 15),)), isa.HALT(),
    ]  # fmt: skip
    run(golden, {V: fine})
    with pytest.raises(Fault) as caught:
        run(golden, {V: [isa.LOOP(at(256)), isa.END(posts=(Post(V, 3),)), isa.HALT()]})
    assert (caught.value.cause, caught.value.pc) == ("SEM_OVERFLOW", 1)
    assert caught.value.numbers == {"target": V, "semaphore": 3}


def test_two_waits_are_taken_together(golden: GoldenMachine) -> None:
    # Engine 1 wants both; engine 2 wants one and gives it back, so nobody can hold one forever.
    program = [
        isa.SYNC(1, waits=(Wait(0), Wait(1))),
        isa.SYNC(2, waits=(Wait(0),), posts=(Post(V, 1),)),
        isa.SYNC(0, posts=(Post(V, 0),)),
        isa.SYNC(0, posts=(Post(V, 0),)),
        isa.HALT(),
    ]
    assert run(golden, {V: program}).instructions == 5


def test_control_waits_block_the_front_end(golden: GoldenMachine) -> None:
    program = [
        isa.SYNC(0, waits=(Wait(1),), posts=(Post(V, 0),)),
        isa.SETA(1, 3, posts=(Post(V, 1),)),
        isa.SETA(1, 7, waits=(Wait(0),)),
        isa.HALT(),
    ]
    run(golden, {V: program})


def test_deadlock_tells_who_waits_for_what(golden: GoldenMachine) -> None:
    vector = [
        isa.SYNC(1, waits=(Wait(9, 2),)),
        isa.SYNC(0, posts=(Post(V, 9),)),
        isa.HALT(),
    ]
    cluster = [isa.SETA(1, 1), isa.ADDA(1, 1, 1, waits=(Wait(7),)), isa.HALT()]
    with pytest.raises(Deadlock) as caught:
        run(golden, {C: cluster, V: vector})
    fault = caught.value
    assert (fault.cause, fault.node, fault.pc) == ("WATCHDOG", C, 1)
    assert fault.waiting == (
        "unit 0 front end at instruction 1: waits for semaphore 7 to hold 1, it holds 0",
        "unit 1 EXEC at instruction 0: waits for semaphore 9 to hold 2, it holds 1",
        "unit 1 front end at instruction 2: waits at its halt until its engines are idle",
    )


def test_full_queue_stops_the_front_end(golden: GoldenMachine) -> None:
    stuck = [isa.SYNC(1, waits=(Wait(0),))] * (TINY.queue_depth + 1)
    with pytest.raises(Deadlock) as caught:
        run(golden, {V: [*stuck, isa.HALT()]})
    assert caught.value.waiting[-1] == (
        f"unit 1 front end at instruction {TINY.queue_depth}: the queue of EXEC is full"
    )


def test_barrier_needs_every_unit(golden: GoldenMachine) -> None:
    run(golden, {C: [isa.BARRIER(), isa.HALT()], V: [isa.BARRIER(), isa.HALT()]})
    run(golden, {V: [isa.BARRIER(), isa.HALT()]})  # the unit table has one unit
    with pytest.raises(Deadlock, match="waits at the barrier for the other units"):
        run(golden, {C: [isa.HALT()], V: [isa.BARRIER(), isa.HALT()]})


def test_post_to_a_node_without_semaphores_is_illegal(golden: GoldenMachine) -> None:
    with pytest.raises(Fault, match="ILLEGAL at unit 1, instruction 0"):
        run(golden, {V: [isa.SETA(1, 1, posts=(Post(2, 0),)), isa.HALT()]})


def test_endless_programs_are_stopped_on_request(golden: GoldenMachine) -> None:
    program = [isa.LOOP(at(1 << 20)), isa.LOOP(at(1 << 20)), isa.END(), isa.END(), isa.HALT()]
    with pytest.raises(Fault, match="WATCHDOG") as caught:
        run(golden, {V: program}, max_instructions=5000)
    assert caught.value.numbers["limit"] == 5000


def test_the_machine_is_usable_after_a_fault(golden: GoldenMachine) -> None:
    with pytest.raises(Fault, match="SEM_LEFT"):
        run(golden, {V: [isa.SETA(5, 9, posts=(Post(V, 3),)), isa.HALT()]})
    # Address registers and semaphores are zero again.
    run(golden, {V: [isa.LOOP(Address(5, 0)), bytes(32), isa.END(), isa.HALT()]})


def test_unit_table_is_checked() -> None:
    golden = GoldenMachine(TINY, memory_words=1 << 14)
    from kohakutpu.model import Program

    golden.memory.write(0, isa.encode(isa.HALT()))
    for bad, text in (
        ([Program(2, "M", 0, 1)], "node 2 is no unit"),
        ([Program(0, "V", 0, 1)], "node 0 is no unit of kind 'V'"),
        ([Program(1, "V", 8, 1)], "multiple of 32"),
        ([Program(1, "V", 0, 0)], "one or more words"),
        ([Program(1, "V", 0, 1)] * 2, "each unit once"),
        ([], "each unit once"),
        ([Program(1, "V", 32 * (1 << 14), 1)], "do not lie in the memory"),
    ):
        with pytest.raises(ValueError, match=text):
            golden.run(bad)
    assert golden.run([Program(1, "V", 0, 1)]).instructions == 1
