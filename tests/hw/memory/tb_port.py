"""Coroutines for `test_port`: a memory port between random requesters and a memory."""

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

import cocotb
from cocotbext.axi import AxiBus, AxiRam

from hw.noc.flit import ACKED_WRITES, READ_CREDITS, Buffer, Form, Kind
from tests.hw.flits import parts
from tests.hw.memory.axi_ram import AwkwardRam
from tests.hw.memory.bench import SIZE, Bench
from tests.hw.memory.configuration import PORT, REQUESTERS
from tests.hw.memory.reference import Read
from tests.hw.memory.traffic import WORDS, random_traffic


async def bench_with_ram(dut: Any, seed: int, **options: Any) -> Bench:
    bench = Bench(dut, seed)
    bench.ram = ram = AwkwardRam(bench.axi, SIZE, Random(seed + 1), **options)
    ram.mem[:] = Random(seed + 2).randbytes(SIZE)
    await bench.start()
    return bench


@cocotb.test()
@cocotb.parametrize(
    (
        ("seed", "stall", "latency", "flow"),
        [
            (1, 0.0, (1, 1), 1.0),
            (2, 0.3, (1, 60), 0.6),
            (3, 0.8, (20, 40), 1.0),
            (4, 0.1, (1, 10), 0.1),
            (5, 0.0, (40, 40), 0.9),
        ],
    )
)
async def random_memory(
    dut: Any, seed: int, stall: float, latency: tuple[int, int], flow: float
) -> None:
    bench = await bench_with_ram(dut, seed, stall=stall, latency=latency)
    bench.accept = flow
    image = bytearray(bench.ram.mem)
    await random_traffic(bench, image, REQUESTERS, jobs=25)
    assert bench.ram.mem == image
    assert {channel for channel, _, _ in bench.ram.bursts} == {"aw", "ar"}


def pauses(seed: int, share: float) -> Iterator[bool]:
    random = Random(seed)
    return (random.random() < share for _ in itertools.count())


@cocotb.test()
@cocotb.parametrize((("seed", "stall"), [(11, 0.0), (12, 0.4)]))
async def third_party_memory(dut: Any, seed: int, stall: float) -> None:
    bench = Bench(dut, seed)
    ram = AxiRam(AxiBus.from_prefix(dut, "axi_"), dut.clk, dut.rst, size=SIZE)
    writes: Any = ram.write_if
    reads: Any = ram.read_if
    for interface in (writes, reads):
        interface.log.setLevel("WARNING")
    image = bytearray(Random(seed).randbytes(SIZE))
    ram.write(0, bytes(image))
    if stall:
        channels = (
            writes.aw_channel, writes.w_channel, writes.b_channel,
            reads.ar_channel, reads.r_channel,
        )  # fmt: skip
        for number, channel in enumerate(channels):
            channel.set_pause_generator(pauses(seed + number, stall))
    await bench.start()
    bench.ram, bench.accept = ram, 1 - stall
    await random_traffic(bench, image, REQUESTERS, jobs=25)
    assert ram.read(0, SIZE) == image


@cocotb.test()
async def every_skew_length_and_form(dut: Any) -> None:
    """Rows of 1 to 40 elements from each quarter of a word, in every form."""
    bench = await bench_with_ram(dut, 21, latency=(3, 3))
    forms = [(Buffer.VECTOR, Form.LINEAR), *((Buffer.L1A, form) for form in list(Form)[1:])]
    for number, (skew, elements) in enumerate(itertools.product(range(4), range(1, 41))):
        buffer, form = forms[number % len(forms)]
        read = Read(
            400 + skew, 6, elements, 3, nodes=2, form=form, buffer=buffer, offset=100,
            l1_stride=20, nk=number if form is Form.SCALES else 0, tag=number % 8,
            ack=number % 2 == 0,
        )  # fmt: skip
        bench.read(read, 0, bench.ram.mem)
        credited = number + 2 - READ_CREDITS  # before the next one may be sent
        await bench.until(lambda least=credited: bench.credits[0, False] >= least)
    await bench.settle()
    assert bench.credits[0, False] == 160


@cocotb.test()
async def bursts_are_cut_at_pages_and_joined(dut: Any) -> None:
    bench = await bench_with_ram(dut, 22)
    bench.read(Read(4 * 120, 1, 16 * 150, 0, nodes=1), 0, bench.ram.mem)
    await bench.settle()
    assert [(a // 32, n) for _, a, n in bench.ram.bursts] == [
        (120, 8), (128, 32), (160, 32), (192, 32), (224, 32), (256, 14),
    ]  # fmt: skip
    bench.ram.bursts.clear()
    for address in [*range(122, 150), 151, 152, 10]:
        bench.write(0, address, 15, address, ack=address == 10, tag=5)
    await bench.settle()
    assert [(a // 32, n) for _, a, n in bench.ram.bursts] == [
        (122, 6), (128, 16), (144, 6), (151, 2), (10, 1),
    ]  # fmt: skip
    assert bench.acks == {(0, 5): 1}
    # Two units side by side: no word of one waits in a burst of the other.
    bench.ram.bursts.clear()
    for address in (200, 201, 202):
        bench.write(address % 2, address, 15, 0, ack=address > 200, pc=address % 2)
    await bench.settle()
    assert [(a // 32, n) for _, a, n in bench.ram.bursts] == [(200, 1), (201, 1), (202, 1)]


@cocotb.test()
async def full_rate(dut: Any) -> None:
    """Memory with 40 cycles of latency and no stalls: rows, single words, and writes."""
    bench = await bench_with_ram(dut, 23, latency=(40, 40))
    for shape, least in (
        (Read(0, 64, 16 * 8, 10, nodes=1), 0.99),
        (Read(4, 512, 16, 10, nodes=1, form=Form.LINEAR), 0.99),
        (Read(1, 512, 12, 10, nodes=1), 0.99),  # inside one word
        (Read(1, 64, 16 * 8 - 4, 10, nodes=1), 8 / 9 - 0.01),  # rows that begin inside a word
        (Read(1, 64, 16 * 8, 10, nodes=1), 8 / 9 - 0.01),
    ):
        bench.log.clear()
        bench.read(shape, 0, bench.ram.mem)
        await bench.settle()
        cycles = bench.log[-1][0] - bench.log[0][0] + 1
        assert len(bench.log) / cycles >= least, (shape, len(bench.log), cycles)
    for length in (1, 8):  # words that follow each other
        start, words = bench.cycle, 512
        for number in range(words):
            address = 1000 + number // length * 20 + number % length
            bench.write(0, address, 15, number, ack=number == words - 1)
        await bench.until(lambda: bench.acks[0, 0])
        assert bench.cycle - start < words + 70
        bench.acks.clear()


@cocotb.test()
async def instructions_go_first(dut: Any) -> None:
    bench = await bench_with_ram(dut, 24, latency=(20, 20))
    for node in REQUESTERS:
        for _ in range(READ_CREDITS):
            bench.read(Read(0, 100, 16 * 8, 10, nodes=1 << node), node, bench.ram.mem)
    await bench.run(100)
    start = bench.cycle
    fetch = Read(4000, 1, 16 * 8, 0, nodes=1, buffer=Buffer.INSTRUCTION, tag=6)
    bench.read(fetch, 0, bench.ram.mem)
    await bench.until(lambda: bench.finished[0, 6])
    # Behind what memory was asked for already, not behind 4,800 words.
    assert bench.cycle - start < 250
    await bench.settle()


@cocotb.test()
async def taking_never_waits_for_sending(dut: Any) -> None:
    """Nothing leaves, yet all that the contract allows is taken and written."""
    bench = await bench_with_ram(dut, 25, latency=(1, 30), stall=0.2)
    bench.accept = 0.0
    for node in REQUESTERS:
        for buffer in (Buffer.VECTOR, Buffer.INSTRUCTION):
            for _ in range(READ_CREDITS):
                bench.read(Read(8 * node, 20, 400, 30, nodes=1, buffer=buffer), node, bench.ram.mem)
    # The first of each class has left its queue: one more fits, and writes all the time.
    for round_ in range(ACKED_WRITES):
        for node in REQUESTERS:
            for word in range(100):
                address = 9000 + 1000 * node + 100 * round_ + word
                bench.write(node, address, 15, address, ack=word == 99, tag=round_)
    for _ in range(6000):
        await bench.step()
        if not bench.sending:
            break
    assert not bench.sending
    await bench.run(500)
    for node in REQUESTERS:
        for address in range(9000 + 1000 * node, 9000 + 1000 * node + 400):
            assert bench.ram.mem[32 * address : 32 * address + 32] == address.to_bytes(32, "little")
    assert not bench.acks
    bench.accept = 1.0
    await bench.settle()
    assert bench.acks == {(n, r): 1 for n in REQUESTERS for r in range(ACKED_WRITES)}


@cocotb.test()
@cocotb.parametrize(kind=("read", "write"), stall=(0.0, 0.5))
async def error_responses(dut: Any, kind: str, stall: float) -> None:
    bad = range(32 * 5000, 32 * 5001)
    bench = await bench_with_ram(dut, 26, latency=(5, 20), stall=stall, errors=bad)
    if kind == "read":
        bench.check = False
        bench.read(Read(4 * 4990, 4, 16 * 6, 5, nodes=1, pc=12345), 1)
        await bench.until(lambda: bench.finished[1, 0])
        assert len(bench.log) == 24  # nobody waits for what failed
        assert bench.reports == [(1, 12345)]
    else:
        for address in range(4999, 5003):
            bench.write(3, address, 15, 7, ack=address == 4999, tag=1, pc=address)
        bench.write(3, 5003, 15, 7, ack=True, tag=2, pc=6)
        await bench.until(lambda: bench.acks[3, 2])
        assert bench.reports == [(3, 5000)]
        assert bench.acks == {(3, 1): 1, (3, 2): 1}
        bench.write(3, 5000, 15, 7, ack=True, tag=3, pc=7)
    await bench.run(200)
    # What is right goes on; the second failure is neither acknowledged nor reported.
    bench.check = True
    bench.read(Read(4 * 4000, 4, 16 * 6, 5, nodes=1, pc=12345), 1, bench.ram.mem)
    await bench.settle()
    assert len(bench.reports) == 1
    assert bench.acks[3, 3] == 0


@cocotb.test()
@cocotb.parametrize(
    (
        ("address", "rows", "elements", "stride", "answered"),
        [
            (4 * WORDS - 4, 1, 16, 0, 1),  # the last word
            (4 * WORDS - 3, 1, 12, 0, 1),
            (4 * WORDS - 3, 1, 13, 0, 0),  # one quarter past it
            (4 * WORDS, 1, 1, 0, 0),
            (4 * WORDS - 24, 3, 16, 3, 2),  # its third row
            (0, 2, 16, (1 << 24) - 1, 1),
            ((1 << 34) - 1, 1, 1, 0, 0),
            ((1 << 34) - 4, 4095, 16, (1 << 24) - 1, 0),
            (4, 4095, 16, 1 << 20, 1),
        ],
    )
)
async def reads_past_memory(
    dut: Any, address: int, rows: int, elements: int, stride: int, answered: int
) -> None:
    bench = await bench_with_ram(dut, 27)
    bench.check = False
    bench.read(Read(address, rows, elements, stride, nodes=1, pc=77), 1)
    await bench.run(100)
    assert bench.reports == ([] if answered == rows else [(1, 77)])
    assert len(bench.log) == answered
    # The port goes on.
    bench.check = True
    bench.read(Read(5, 3, 40, 9, nodes=1), 0, bench.ram.mem)
    await bench.settle()


@cocotb.test()
async def writes_past_memory(dut: Any) -> None:
    bench = await bench_with_ram(dut, 28)
    before = bytearray(bench.ram.mem)
    for address in (WORDS - 1, WORDS, WORDS + 1, (1 << 32) - 1):
        bench.write(1, address, 15, 3, ack=address != WORDS - 1, tag=4, pc=address % 1000)
    bench.write(1, 0, 1, 3, ack=True, tag=5)
    await bench.settle()
    assert bench.reports == [(1, WORDS % 1000)]
    assert bench.acks == {(1, 5): 1}
    before[-32:] = (3).to_bytes(32, "little")
    before[:8] = (3).to_bytes(8, "little")
    assert bench.ram.mem == before


@cocotb.test()
async def stop_leaves_memory_owing_nothing(dut: Any) -> None:
    bench = await bench_with_ram(dut, 29, latency=(10, 50), stall=0.3)
    bench.check = False
    for node in REQUESTERS:
        bench.read(Read(0, 50, 16 * 30, 40, nodes=1), node)
        for word in range(100):
            bench.write(node, 9000 + 1000 * node + word, 15, 1, ack=word == 99)
    await bench.run(120)
    assert not dut.idle.value
    dut.stop.value = 1
    bench.accept = 0.0  # and the mesh is stuck
    for _ in range(2000):
        await bench.step()
        if dut.idle.value:
            break
    assert not bench.ram.owes
    asked = len(bench.ram.bursts)
    await bench.run(100)
    assert len(bench.ram.bursts) == asked
    assert dut.idle.value
    # After a reset it is as new.
    again = await bench_with_ram(dut, 30)
    again.read(Read(3, 30, 50, 7, nodes=1), 0, again.ram.mem)
    await again.settle()


@cocotb.test()
async def other_flits_pass_by(dut: Any) -> None:
    bench = await bench_with_ram(dut, 31)
    for kind in Kind:
        if kind not in (Kind.READ, Kind.WRITE):
            bench.sending.append(1 << PORT | 1 << 16 | kind.value << 20)
    bench.read(Read(3, 30, 50, 7, nodes=1), 0, bench.ram.mem)
    await bench.settle()
    assert {parts(bits)["kind"] for _, bits in bench.log} == {Kind.DATA.value}
