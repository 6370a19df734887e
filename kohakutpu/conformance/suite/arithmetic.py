"""Numbers on their way through every place that rounds: EXEC, quantisers, contraction, drains."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from kohakutpu.config import KBLOCK, Machine
from kohakutpu.conformance.draft import Draft
from kohakutpu.conformance.shorthand import (
    destination,
    drain,
    execute,
    fill,
    gemm,
    source,
)
from kohakutpu.conformance.suite import samples
from kohakutpu.conformance.suite.boundaries import Result
from kohakutpu.conformance.suite.contexts import load_words
from kohakutpu.isa import Source
from kohakutpu.numerics.scalar import mx

UNARIES = ("none", "abs", "neg", "exp2", "log2", "recip", "rsqrt")
PAIRS = ("mac", "max", "min", "lt", "le", "eq")
REDUCED = (1, 2, 3, 15, 16, 17, 31, 47, 64, 127, 128, 129, 144, 145, 200)


def cases(machine: Machine) -> Iterator[Result]:
    """Yield a case for each operation, all of its numbers in one."""
    for unary in UNARIES:
        yield _unary(machine, unary)
        yield _widened(machine, unary)
    for function in PAIRS:
        for part in range(3):
            yield _pairs(machine, function, part)
    yield _addends(machine)
    yield _selected(machine)
    for function in PAIRS:
        yield _immediate(machine, function)
    for operation in ("sum", "max", "min"):
        yield _zeros(machine, operation)
    for operation, width in product(("sum", "max", "min"), REDUCED):
        yield _reduced(machine, operation, width)
    for mode in ("fp16", "residual"):
        for number in range(6):
            yield _quantised(machine, mode, number)
    for rows, k in ((5, 64), (12, 33), (7, 20), (0, 64), (12, 0), (1, 1)):
        yield _cleared(machine, rows, k)
    for number in range(6):
        yield _contracted(machine, number)
    for number in range(4):
        yield _narrowed(machine, number)


def _core(machine: Machine, name: str) -> tuple[Draft, int]:
    return Draft(machine, f"numbers/{name}"), machine.of_kind("V")[0].id


def _unary(machine: Machine, unary: str) -> Result:
    draft, node = _core(machine, f"unary/{unary}")
    codes = [*samples.FP32_EDGES, *samples.fp32(draft.random, 72, 0.0)]
    codes += [draft.random.getrandbits(32) for _ in range(32)]
    codes += [draft.random.randrange(0x3F000000, 0x3F800000) for _ in range(16)]
    load_words(draft, node, samples.as_fp32(codes + [0] * (-len(codes) % 8)))
    count = len(codes)
    out = destination("l1f", 64)
    code = execute(cols=count, a=source("l1f"), unary=unary, dst=out)
    return draft.examine(node, [code], 1)


def _widened(machine: Machine, unary: str) -> Result:
    draft, node = _core(machine, f"fp16/{unary}")
    codes = [*samples.FP16_EDGES, *samples.fp16(draft.random, 45, 0.0)]
    load_words(draft, node, samples.as_fp16(codes))
    code = execute(cols=len(codes), a=source("l1h"), unary=unary, dst=destination("l1h", 64))
    return draft.examine(node, [code], 1)


def _pairs(machine: Machine, function: str, part: int) -> Result:
    """Try a third of the edges against all of them: a row for each, the other a scalar."""
    draft, node = _core(machine, f"edges-{function}/{part}")
    edges = list(samples.FP32_EDGES)
    mine = edges[part::3]
    width = len(edges) + -len(edges) % 8
    load_words(draft, node, samples.as_fp32(edges + [0] * (width - len(edges))))
    codes = [
        execute(
            cols=len(edges),
            f=function,
            a=Source.imm_bits(code),
            b=source("l1f"),
            dst=destination("l1f", 16 + number * (width // 8)),
        )
        for number, code in enumerate(mine)
    ]
    return draft.examine(node, codes, 1)


def _addends(machine: Machine) -> Result:
    draft, node = _core(machine, "sum")
    edges = list(samples.FP32_EDGES)
    width = len(edges) + -len(edges) % 8
    near = [code ^ draft.random.choice((0x80000000, 0x80000001, 1, 3)) for code in edges]
    padding = [0] * (width - len(edges))
    load_words(draft, node, samples.as_fp32(edges + padding + near + padding))
    words = width // 8
    codes = [
        execute(
            cols=len(edges),
            a=source("l1f"),
            c=Source.imm_bits(code),
            dst=destination("l1f", 2 * words + number * words),
        )
        for number, code in enumerate(edges[::3])
    ]
    last = 2 * words + len(codes) * words
    both = {"a": source("l1f"), "c": source("l1f", words)}
    codes.append(execute(cols=len(edges), dst=destination("l1f", last), **both))
    return draft.examine(node, codes, 1)


def _selected(machine: Machine) -> Result:
    draft, node = _core(machine, "select")
    edges = list(samples.FP32_EDGES)
    load_words(draft, node, samples.as_fp32(edges + [0] * (-len(edges) % 8)))
    codes = [
        execute(cols=len(edges), f="select", dst=destination("l1f", 16 + 8 * n), **operands)
        for n, operands in enumerate(
            (
                {"a": source("l1f"), "b": Source.imm(2.0), "c": source("l1f")},
                {"a": Source.imm(2.0), "b": source("l1f"), "c": source("l1f")},
                {"a": source("l1f"), "b": Source.imm(2.0), "c": Source.imm_bits(0x80000000)},
                {"a": source("l1f"), "b": Source.imm(2.0), "c": Source.imm_bits(0x7FC00000)},
                {"a": source("l1f"), "b": Source.imm(2.0), "c": Source.imm_bits(1)},
            )
        )
    ]
    return draft.examine(node, codes, 1)


def _immediate(machine: Machine, function: str) -> Result:
    """Combine immediates that are nearly nothing with FP16 numbers and with registers."""
    draft, node = _core(machine, f"immediate-{function}")
    codes = [*samples.FP16_EDGES, *samples.fp16(draft.random, 45, 0.0)]
    load_words(draft, node, samples.as_fp16(codes))
    cols = len(codes)
    draft.program(node).chain(execute(cols=cols, a=source("l1h"), dst=destination("reg")))
    steps = [
        execute(
            cols=cols,
            f=function,
            a=Source.imm_bits(code),
            b=other,
            dst=destination("l1f", 8 + 16 * number + 8 * turn),
        )
        for number, code in enumerate((0x007FFFFF, 0x807FFFFF, 0x00000001, 0x00800000, 0x80000000))
        for turn, other in enumerate((source("l1h"), source("reg")))
    ]
    return draft.examine(node, steps, 1)


def _zeros(machine: Machine, operation: str) -> Result:
    """Reduce rows of zeros of either sign, alone and beside a number or a subnormal."""
    draft, node = _core(machine, f"reduce-{operation}/zeros")
    plus, minus = 0, 0x80000000
    rows = (
        [plus, plus, plus],
        [minus, minus, minus],
        [plus, minus, plus],
        [minus, plus, minus],
        [minus, minus, 0x00000001],
        [0x80000001, plus, minus],
        [0x3F800000, minus, 0xBF800000],
        [minus, 0x7FC00000, plus],
    )
    content = [code for row in rows for code in (*row, *[0x7FC00000] * 5)]
    load_words(draft, node, samples.as_fp32(content))
    whole = execute(rows=len(rows), cols=3, a=source("l1f", 0, 1), reduce=operation, red=1)
    single = execute(rows=len(rows), cols=1, a=source("l1f", 0, 1), reduce=operation, red=5)
    return draft.examine(node, [whole, single], 1)


def _reduced(machine: Machine, operation: str, width: int) -> Result:
    """Reduce rows of numbers of all sizes, so that the order shows; one of them hostile."""
    draft, node = _core(machine, f"reduce-{operation}/{width}")
    rows = 3
    stride = -(-width // 8)
    content: list[int] = []
    for row in range(rows):
        codes = samples.fp32(draft.random, width, 0.0 if row else 0.02)
        codes = [code ^ draft.random.randrange(9) << 23 for code in codes]
        content += codes + [0x7FC00000] * (8 * stride - width)
    load_words(draft, node, samples.as_fp32(content))
    code = execute(rows=rows, cols=width, a=source("l1f", 0, stride), reduce=operation, red=3)
    return draft.examine(node, [code], 1)


def _cluster(machine: Machine, name: str) -> tuple[Draft, int]:
    return Draft(machine, f"numbers/{name}"), machine.of_kind("C")[0].id


def _quantised(machine: Machine, mode: str, number: int) -> Result:
    """Quantise blocks whose largest element is where it hurts: ties, subnormals, clamping."""
    draft, node = _cluster(machine, f"{mode}/{number}")
    codes: list[int] = []
    for row in range(8):
        top = draft.random.choice((0x0001, 0x0010, 0x03FF, 0x0400, 0x3BFF, 0x3C00, 0x7BFF, 0x3FFF))
        block = [draft.random.randrange(top + 1) for _ in range(KBLOCK)]
        block[draft.random.randrange(KBLOCK)] = top
        codes += [code | draft.random.randrange(2) << 15 for code in block]
        if number == 5:
            codes[-1 - row] = draft.random.choice((0x7C00, 0xFC00, 0x7E01, 0x8000, 0x0001))
    place = draft.data(samples.as_fp16(codes))
    return draft.examine(node, [fill("A", mem=place, stride=2, g=2, mode=mode)], 0)


def _cleared(machine: Machine, rows: int, k: int) -> Result:
    """Multiply what extents clear by the largest scale, under which only a true zero is one."""
    draft, node = _cluster(machine, f"cleared/{rows}x{k}")
    program = draft.program(node)
    before = samples.packed("cleared", 12, samples.MILD)
    program.chain(fill("A", mem=draft.data(before), g=12, mode="packed"))
    loud = [[([64 * (i == e) for e in range(KBLOCK)], 254)] for i in range(KBLOCK)]
    lanes = [[block for row in loud[i : i + 4] for block in row] for i in range(0, KBLOCK, 4)]
    program.chain(fill("B", mem=draft.data(mx.pack_region(lanes)), g=8, mode="packed"))
    numbers = draft.data(samples.fp16_bytes("cleared", 16 * 4 * 12))
    window = {"l1": 2, "g": 3, "nk": 2, "l1_stride": 2, "stride": 4}
    program.chain(fill("A", mem=numbers, rows=rows, k=k, **window))
    for block in range(2):
        program.chain(gemm(a=2 + block, gm=3, a_stride=2, gn=8))
        program.chain(drain(gm=3, gn=8, mem=draft.output(48), stride=4))
    return draft.finish()


def _contracted(machine: Machine, number: int) -> Result:
    """Add up partials of very different sizes, so that the order of K shows."""
    draft, node = _cluster(machine, f"contract/{number}")
    scales = (samples.WILD, (120, 130, 140), (60, 70, 200), (0, 1, 66, 67), (127,), (190, 254))
    program = draft.program(node)
    for buffer in "AB":
        entries = samples.packed(f"{draft.name} {buffer}", 16, scales[number])
        program.chain(fill(buffer, mem=draft.data(entries), g=2, nk=8, l1_stride=8, mode="packed"))
    code = gemm(gm=2, gn=2, nk=8, a_stride=8, b_stride=8)
    return draft.examine(node, [code], 1)


def _narrowed(machine: Machine, number: int) -> Result:
    """Drain sums that are ties of FP16, too large for it, or too small."""
    draft, node = _cluster(machine, f"drain/{number}")
    program = draft.program(node)
    half, whole = [0] * KBLOCK, [0] * KBLOCK
    half[0], whole[0] = 1, 64
    lanes = [(whole, 127), (half, 127 - 6 * number), (whole, 142 - number), (half, 103 + number)]
    program.chain(fill("A", mem=draft.data(mx.pack_region([lanes])), mode="packed"))
    chance = draft.random
    columns = [
        [([chance.randrange(-127, 128)] + [0] * (KBLOCK - 1), 116 + 2 * i + j) for j in range(4)]
        for i in range(4)
    ]
    fine = [[([chance.choice((1, -1, 64))] + [0] * (KBLOCK - 1), 112 + i)] * 4 for i in range(4)]
    place = draft.data(mx.pack_region([*columns, *fine]))
    program.chain(fill("B", mem=place, g=8, mode="packed"))
    program.chain(gemm(gn=4))
    program.chain(gemm(gn=4, b=4, accumulate=True))
    output = draft.output(16)
    program.enclose([drain(gn=4, mem=output, stride=2, format="fp16")], 2)
    return draft.finish()
