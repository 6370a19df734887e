"""Engines that overlap: buffers in turn, rings that wrap, tiles that leave while others grow."""

from __future__ import annotations

from collections.abc import Iterator

from kohakuaccel.isa import Instruction
from kohakutpu.config import Machine
from kohakutpu.conformance.draft import Draft
from kohakutpu.conformance.shorthand import (
    destination,
    drain,
    execute,
    fill,
    gemm,
    source,
    vdrain,
    vfill,
)
from kohakutpu.conformance.suite import samples
from kohakutpu.conformance.suite.boundaries import Result
from kohakutpu.isa import (
    ADDA,
    END,
    LOOP,
    SETA,
    SYNC,
    Address,
    Destination,
    Extent,
    Flag,
    Post,
    Source,
    Wait,
)

FREE, FULL, DONE, TAKEN = 0, 1, 2, 3
A_FREE, A_FULL = 4, 5


def cases(machine: Machine) -> Iterator[Result]:
    """Yield the cases."""
    for depth in (1, 2, 3):
        yield _matmul(machine, depth)
        yield _stream(machine, depth)
    for rows, cols in ((1, 1), (7, 21), (33, 50)):
        yield _ragged(machine, rows, cols)
    yield _epilogue(machine)
    yield _back_to_back(machine)
    yield _accumulators(machine)
    yield _reductions(machine)


def _here(node: int, semaphore: int) -> tuple[Post, ...]:
    return (Post(node, semaphore),)


def _matmul(machine: Machine, depth: int) -> Result:
    """Contract 8 x 256 by 256 x 12, a block of K at a time through `depth` buffers in a ring."""
    draft = Draft(machine, f"pipeline/matmul-{depth}")
    node = machine.of_kind("C")[0].id
    blocks = 8
    left = draft.data(samples.fp16_bytes("left", 8 * 32 * blocks, 0.01))
    right = draft.data(samples.fp16_bytes("right", 12 * 32 * blocks, 0.01))
    output = draft.output(16)
    code = draft.program(node).code
    for base in (FREE, A_FREE):
        code += [SYNC(1, posts=_here(node, base))] * depth
    code += [SETA(rd=1, imm=0), SETA(rd=2, imm=0), SETA(rd=3, imm=0), SETA(rd=4, imm=0)]
    code.append(LOOP(Address(0, blocks)))
    code.append(
        fill(
            "A",
            l1=Address(1, 0),
            g=2,
            l1_stride=4,
            mem=Address(2, left),
            stride=2 * blocks,
            waits=(Wait(FREE, 1),),
            posts=_here(node, FULL),
        )
    )
    code.append(
        fill(
            "B",
            l1=Address(1, 0),
            g=3,
            l1_stride=4,
            mem=Address(2, right),
            stride=2 * blocks,
            waits=(Wait(A_FREE, 1),),
            posts=_here(node, A_FULL),
        )
    )
    code.append(
        gemm(
            a=Address(1, 0),
            b=Address(1, 0),
            gm=2,
            gn=3,
            a_stride=4,
            b_stride=4,
            accumulate=Flag(False, 2),
            waits=(Wait(FULL, 1), Wait(A_FULL, 1)),
            posts=(Post(node, FREE), Post(node, A_FREE)),
        )
    )
    code += [ADDA(rd=1, rs=1, imm=1, modulo=depth), ADDA(rd=2, rs=2, imm=8), END()]
    code.append(SYNC(1, posts=_here(node, DONE)))
    code.append(drain(gm=2, gn=3, mem=output, stride=2, waits=(Wait(DONE, 1),)))
    code += [SYNC(0, waits=(Wait(FREE, depth), Wait(A_FREE, depth)))]
    return draft.finish()


def _stream(machine: Machine, depth: int) -> Result:
    """Fill, compute and drain 10 windows through `depth` buffers each way, addresses in rings."""
    draft = Draft(machine, f"pipeline/stream-{depth}")
    node = machine.of_kind("V")[0].id
    windows = 10
    given = draft.data(samples.fp16_bytes("stream", 16 * 4 * windows))
    output = draft.output(4 * windows)
    code = draft.program(node).code
    code += [SYNC(1, posts=_here(node, FREE))] * depth
    code += [SYNC(2, posts=_here(node, TAKEN))] * depth
    code += [SETA(rd=1, imm=0), SETA(rd=2, imm=0), LOOP(Address(0, windows))]
    code.append(
        vfill(
            mem=Address(2, given),
            rows=2,
            cols=32,
            stride=2,
            l1=Address(1, 0),
            l1_stride=2,
            waits=(Wait(FREE, 1),),
            posts=_here(node, FULL),
        )
    )
    code.append(
        execute(
            rows=2,
            cols=32,
            a=Source.l1h(Address(1, 0), 2),
            b=Source.imm(0.75),
            c=Source.imm(-0.125),
            unary="exp2",
            dst=Destination.l1h(Address(1, 40), 2),
            waits=(Wait(FULL, 1), Wait(TAKEN, 1)),
            posts=(Post(node, FREE), Post(node, DONE)),
        )
    )
    code.append(
        vdrain(
            l1=Address(1, 40),
            l1_stride=2,
            rows=2,
            cols=32,
            stride=2,
            mem=Address(2, output),
            waits=(Wait(DONE, 1),),
            posts=_here(node, TAKEN),
        )
    )
    code += [ADDA(rd=1, rs=1, imm=4, modulo=4 * depth), ADDA(rd=2, rs=2, imm=16), END()]
    code.append(SYNC(0, waits=(Wait(FREE, depth), Wait(TAKEN, depth))))
    return draft.finish()


def _ragged(machine: Machine, rows: int, cols: int) -> Result:
    """Copy a ragged matrix, padding full of NaN, tile by tile with positions in registers."""
    draft = Draft(machine, f"pipeline/ragged-{rows}x{cols}")
    node = machine.of_kind("V")[0].id
    stride = -(-cols // 16)
    numbers = samples.fp16_bytes("ragged", 16 * stride * rows)
    content = b"".join(
        numbers[32 * stride * r : 32 * stride * r + 2 * cols] + b"\xff\xff" * (16 * stride - cols)
        for r in range(rows)
    )
    given, output = draft.data(content), draft.output(stride * rows)
    code = draft.program(node).code
    high, wide = 8, 16
    code += [SETA(rd=1, imm=0), SETA(rd=3, imm=0), LOOP(Address(0, -(-rows // high)))]
    code += [SETA(rd=2, imm=0), ADDA(rd=4, rs=3, imm=0), LOOP(Address(0, stride))]
    window = {"rows": high, "cols": wide, "stride": stride}
    extents = {"row_extent": Extent(rows, 1), "col_extent": Extent(cols, 2)}
    ready, gone = _here(node, FULL), _here(node, FREE)
    code.append(vfill(mem=Address(4, given), posts=ready, **window, **extents))
    full = (Wait(FULL, 1),)
    code.append(vdrain(mem=Address(4, output), waits=full, posts=gone, **window, **extents))
    code.append(SYNC(0, waits=(Wait(FREE, 1),)))
    code += [ADDA(rd=2, rs=2, imm=wide), ADDA(rd=4, rs=4, imm=4), END()]
    code += [ADDA(rd=1, rs=1, imm=high), ADDA(rd=3, rs=3, imm=4 * stride * high), END()]
    return draft.finish()


def _epilogue(machine: Machine) -> Result:
    """Let every cluster hand tiles to a vector core, which sends them on, two in flight."""
    draft = Draft(machine, "pipeline/epilogue")
    tiles = 6
    for cluster, core in machine.pairs:
        left = draft.data(samples.fp16_bytes(f"left {cluster.id}", 16 * 2 * 8))
        right = draft.data(samples.fp16_bytes(f"right {cluster.id}", 16 * 2 * 4 * tiles))
        output = draft.output(8 * tiles)
        code = draft.program(cluster.id).code
        code.append(fill("A", mem=left, g=2, stride=2, posts=_here(cluster.id, A_FULL)))
        code.append(fill("B", mem=right, g=tiles, stride=2, posts=_here(cluster.id, A_FULL)))
        code += [SYNC(1, waits=(Wait(A_FULL, 2),)), SETA(rd=1, imm=0), SETA(rd=2, imm=0)]
        code += [SYNC(2, posts=_here(cluster.id, FREE))] * 2
        code.append(LOOP(Address(0, tiles)))
        code.append(
            gemm(
                gm=2,
                b=Address(1, 0),
                acc=Address(2, 0),
                waits=(Wait(FREE, 1),),
                posts=_here(cluster.id, FULL),
            )
        )
        code.append(
            drain(
                acc=Address(2, 0),
                gm=2,
                format="fp16",
                to="node",
                nodes=1 << core.id,
                buffer="vector",
                mem=Address(3, 0),
                stride=1,
                waits=(Wait(FULL, 1), Wait(TAKEN, 1)),
                posts=(Post(core.id, FULL), Post(cluster.id, FREE)),
            )
        )
        code += [
            ADDA(rd=1, rs=1, imm=1),
            ADDA(rd=2, rs=2, imm=2, modulo=4),
            ADDA(rd=3, rs=3, imm=8, modulo=16),
            END(),
            SYNC(1, waits=(Wait(FREE, 2), Wait(TAKEN, 2))),
        ]
        code = draft.program(core.id).code
        code += [SYNC(1, posts=(Post(cluster.id, TAKEN),))] * 2
        code += [SYNC(2, posts=_here(core.id, FREE))] * 2
        code += [SETA(rd=1, imm=0), SETA(rd=2, imm=0), LOOP(Address(0, tiles))]
        code.append(
            execute(
                rows=8,
                cols=4,
                f="max",
                a=Source.l1h(Address(1, 0), 1),
                b=Source.imm(0.0),
                dst=Destination.l1h(Address(1, 32), 1),
                waits=(Wait(FULL, 1), Wait(FREE, 1)),
                posts=(Post(cluster.id, TAKEN), Post(core.id, DONE)),
            )
        )
        code.append(
            vdrain(
                l1=Address(1, 32),
                rows=8,
                cols=4,
                mem=Address(2, output),
                waits=(Wait(DONE, 1),),
                posts=_here(core.id, FREE),
            )
        )
        code += [ADDA(rd=1, rs=1, imm=8, modulo=16), ADDA(rd=2, rs=2, imm=32), END()]
        code.append(SYNC(1, waits=(Wait(FREE, 2),)))
    return draft.finish()


def _back_to_back(machine: Machine) -> Result:
    """Let instructions of one engine depend on one another with nothing between them."""
    draft = Draft(machine, "pipeline/back-to-back")
    node = machine.of_kind("V")[0].id
    program = draft.program(node)
    program.chain(vfill(mem=draft.data(samples.fp16_bytes("steps", 64)), cols=64))
    beats = -(-50 // machine.lanes)
    steps: list[Instruction] = [
        execute(cols=50, a=source("l1h"), b=Source.imm(1.5), dst=destination("reg", 0)),
        execute(cols=50, a=source("reg"), c=Source.imm(1.0), dst=destination("reg", beats)),
        execute(cols=50, a=source("reg", beats), reduce="sum", red=2 * beats),
        execute(
            cols=50, a=source("reg", beats), b=source("row", 2 * beats), dst=destination("l1f", 10)
        ),
        execute(cols=50, a=source("l1f", 10), unary="abs", dst=destination("l1f", 10)),
        execute(cols=50, a=source("l1f", 10), unary="log2", dst=destination("l1h", 20)),
        execute(cols=50, f="max", a=source("l1h", 20), b=source("l1h"), dst=destination("l1h", 0)),
    ]
    return draft.examine(node, steps, 1)


def _accumulators(machine: Machine) -> Result:
    """Add to tiles that share sub-tiles with the one before, and drain while others grow."""
    draft = Draft(machine, "pipeline/accumulators")
    node = machine.of_kind("C")[0].id
    program = draft.program(node)
    for buffer in "AB":
        place = draft.data(samples.packed(f"grow {buffer}", 12, samples.MILD))
        program.chain(fill(buffer, mem=place, g=12, mode="packed"))
    program.settle()
    output = draft.output(60)
    for tile in range(5):
        first = {"acc": 4 * tile, "gm": 2, "gn": 2, "nk": 3, "a": tile, "b": tile}
        again = {"acc": 4 * tile, "gm": 4, "gn": 1, "nk": 2, "b": 6, "accumulate": True}
        program.code.append(gemm(**first))
        program.code.append(gemm(**again, posts=_here(node, FULL)))
        place = output + 4 * 8 * tile
        done = drain(acc=4 * tile, gm=2, gn=2, mem=place, waits=(Wait(FULL, 1),))
        program.code.append(done)
    return draft.finish()


def _reductions(machine: Machine) -> Result:
    """Reduce windows one after the other, each result the next one's operand."""
    draft = Draft(machine, "pipeline/reductions")
    node = machine.of_kind("V")[0].id
    program = draft.program(node)
    program.chain(vfill(mem=draft.data(samples.fp16_bytes("softmax", 16 * 20)), cols=320))
    window = {"rows": 5, "cols": 50}
    codes = [
        execute(a=source("l1h", 0, 4), reduce="max", red=0, **window),
        execute(rows=5, a=source("row", 0), unary="neg", dst=destination("reg", 4, 1)),
        execute(rows=5, a=source("reg", 4, 1), reduce="sum", red=10),
        execute(
            a=source("l1h", 0, 4),
            c=source("row", 10),
            unary="exp2",
            dst=destination("l1f", 40, 7),
            reduce="sum",
            red=14,
            **window,
        ),
        execute(rows=5, a=source("row", 14), unary="recip", reduce="min", red=16),
        execute(
            a=source("l1f", 40, 7), b=source("row", 16), dst=destination("l1h", 0, 4), **window
        ),
    ]
    return draft.examine(node, codes, 1)
