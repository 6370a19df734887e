"""What several clusters read is fetched once: which fills, for whom, and what orders them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cluster import Ports, multicasts, ports_of
from compiler.passes import context
from compiler.pipeline import ArgSpec, Compiled, compile_kernel
from compiler.tests.fused import attention
from compiler.tests.golden import Array, Launch, assert_same, contract, run, spec_of, to_fp16
from compiler.tests.semaphores import goes_wrong, semaphores_of, without_semaphore
from kohakuaccel.errors import InternalError
from kohakutpu import isa, kernels
from kohakutpu.config import Machine, preset
from kohakutpu.kernels import batched_matmul, linear_relu, matmul, swiglu

pytestmark = pytest.mark.golden

# Machines of small clusters, with queues that hide no missing semaphore.
MESHES = {2: "C V\nM H\nC V", 3: "C V M\nC V H\nC V .", 4: "C V V C\nM C V M\nH C V ."}
MACHINES = {
    count: replace(preset("tiny"), name=f"of {count}", mesh=mesh, queue_depth=64)
    for count, mesh in MESHES.items()
}
PAIR = MACHINES[2]
CLUSTERS = {count: [c.id for c in machine.of_kind("C")] for count, machine in MACHINES.items()}


def gaussian(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def compiled_for(kernel: Any, shapes: Any, machine: Machine, **knobs: Any) -> Compiled:
    return compile_kernel(kernel, [ArgSpec(shape) for shape in shapes], knobs, machine)


def fills(compiled: Compiled) -> list[tuple[int, str, int]]:
    """Every FILL in the programs: who has it, the buffer and the set of receivers."""
    return [
        (unit.node, instruction.buffer, instruction.nodes)
        for unit in compiled.image.units
        for start in range(0, len(unit.words), 32)
        for instruction in [isa.decode(unit.kind, unit.words[start : start + 32])]
        if instruction.record is isa.FILL
    ]


def test_a_pair_shares_what_its_split_does_not_move() -> None:
    # 4 x 4 tiles, rows of tiles cut in halves: B is wanted by both, each has its own rows of A.
    compiled = compiled_for(matmul, [(64, 96), (64, 96)], PAIR, gm=4, gn=4, nk=1)
    first, second = CLUSTERS[2]
    both = 1 << first | 1 << second
    assert set(fills(compiled)) == {(first, "A", 0), (first, "B", both), (second, "A", 0)}
    assert "fetched once: b, by C0 for C0, C4" in compiled.plan.pretty()


def test_words_of_512_cubed_by_hand() -> None:
    # Tiles of 128 x 128: each of the two clusters has two rows of four. Chunks stream. Each row of
    # A (32 words) is read for the four tiles of its row, by whoever has them; all of B is read for
    # each row of tiles, for both clusters at once.
    machine = preset("duo")
    compiled = compiled_for(matmul, [(512, 512)] * 2, machine, gm=32, gn=32, nk=2)
    assert compiled.plan.words_read == 4 * 512 * 32 + 2 * 512 * 32
    launch = Launch(compiled, [np.ones((512, 512), np.float16)] * 2, machine)
    assert launch.run().read_words == compiled.plan.words_read
    assert (launch.results()[0] == 512).all()


@pytest.mark.parametrize(
    ("lengths", "groups"),
    [((2, 2, 2, 2), [(0, 1, 2, 3)]), ((3, 3, 2, 2), [(0, 1), (2, 3)]), ((3, 2), [(0,), (1,)])],
)
def test_groups_have_shares_of_one_length(lengths: Any, groups: Any) -> None:
    nodes = CLUSTERS[4][: len(lengths)]
    found = multicasts(nodes, lengths, MACHINES[4])
    assert [group.members for group in found] == [tuple(nodes[n] for n in g) for g in groups]
    assert all(group.issuer in group.members for group in found)


def test_who_fetches_is_at_the_port_with_least_to_do() -> None:
    quad = preset("quad")
    nodes = [c.id for c in quad.of_kind("C")]  # 0, 3, 5, 9: all but 3 are nearest to port 4
    (group,) = multicasts(nodes, [1] * 4, quad)
    assert group.issuer == 3
    assert group.receivers == (0, 5, 9)
    ports = ports_of([group], quad)
    assert sorted(ports.loads) == [(1, 1), (3, 0)]
    assert ports.words(10, 4) == 30  # the port of three
    assert ports.words(10, 40) == 50  # the port of one, which fetches for all
    assert Ports(((2, 1),)).words(10, 40) == 60


# Shapes for each cluster: the first dimension of an operand that is cut is as often as long.
CASES = {
    "streams": (matmul, "a", [(64, 2240), (16, 2240)], {"gm": 4, "gn": 4, "nk": 16}),
    "own panel": (matmul, "a", [(64, 992), (32, 992)], {"gm": 4, "gn": 4, "nk": 16}),
    "panels": (matmul, "a", [(96, 64), (32, 64)], {"gm": 2, "gn": 4, "nk": 2}),
    "columns": (matmul, "b", [(64, 992), (32, 992)], {"gm": 4, "gn": 4, "nk": 16}),
    "epilogue": (linear_relu, "a", [(96, 64), (32, 64)], {"gm": 2, "gn": 4, "nk": 2}),
    "two of a side": (swiglu, "a", [(32, 96), (32, 96), (32, 96)], {"gm": 2, "gn": 2, "nk": 1}),
    "batch": (batched_matmul, "a", [(2, 16, 96), (16, 96)], {"gm": 2, "gn": 2, "nk": 1}),
    "high": (matmul, "a", [(32, 96), (32, 96)], {"gm": 2, "gn": 2, "nk": 2, "precision": "high"}),
}


def case(name: str, count: int) -> tuple[Any, list[tuple[int, ...]], dict[str, Any]]:
    kernel, cut, shapes, knobs = CASES[name]
    place = "ab".index(cut)
    scaled = (count * shapes[place][0], *shapes[place][1:])
    return kernel, [*shapes[:place], scaled, *shapes[place + 1 :]], knobs


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_any_interleaving_gives_the_same_bits(name: str, count: int) -> None:
    kernel, shapes, knobs = case(name, count)
    machine = MACHINES[count]
    args = [gaussian(number, *shape) for number, shape in enumerate(shapes)]
    expected = run(kernel, *args, machine=preset("tiny"), knobs=knobs)
    compiled = compile_kernel(kernel, [spec_of(array) for array in args], knobs, machine)
    assert any(nodes for _, _, nodes in fills(compiled))
    for seed in range(30):
        launch = Launch(compiled, args, machine, poison=True, seed=seed)
        launch.run()
        assert_same(launch.results()[0], expected)


@pytest.mark.parametrize(
    ("name", "count"),
    [("streams", 2), ("streams", 3), ("own panel", 2), ("panels", 2), ("columns", 3), ("batch", 2)],
)
def test_every_semaphore_is_needed(name: str, count: int) -> None:
    kernel, shapes, knobs = case(name, count)
    machine = MACHINES[count]
    args = [gaussian(number, *shape) for number, shape in enumerate(shapes)]
    expected = to_fp16(contract(args[0].reshape(-1, args[0].shape[-1]), args[1]))
    compiled = compile_kernel(kernel, [spec_of(array) for array in args], knobs, machine)
    for unit, semaphore in semaphores_of(compiled):
        broken = without_semaphore(compiled, unit, semaphore)
        wrong = (goes_wrong(broken, args, machine, seed, expected) for seed in range(200))
        assert any(wrong), f"semaphore {semaphore} of unit {unit} makes no difference"


sizes = st.sampled_from((1, 4, 13, 32, 33, 64, 100))


@settings(max_examples=60, deadline=None)
@given(
    m=sizes, k=sizes, n=sizes, knobs=st.tuples(*[st.sampled_from((None, 1, 2, 4))] * 3),
    count=st.sampled_from(sorted(MACHINES)), seed=st.integers(0, 1 << 16),
    precision=st.sampled_from(("default", "left", "high")),
)  # fmt: skip
def test_equals_the_statement_to_the_bit(
    m: int, k: int, n: int, knobs: Any, count: int, seed: int, precision: str
) -> None:
    a, b = gaussian(seed, m, k), gaussian(seed + 1, n, k)
    named = {**dict(zip(("gm", "gn", "nk"), knobs, strict=True)), "precision": precision}
    c = run(matmul, a, b, machine=MACHINES[count], knobs=named, poison=True, seed=seed)
    assert_same(c, to_fp16(contract(a, b, precision)))


@pytest.mark.parametrize("count", MACHINES)
def test_attention_shares_keys_and_values(count: int) -> None:
    # Blocks of queries are shared out; keys and values are the same for all of them.
    shapes = [(16 * count, 32), (70, 32), (70, 20)]
    args = [gaussian(number, *shape) for number, shape in enumerate(shapes)]
    knobs = {"block": 8, "keys": 32, "nk": 1}
    machine = MACHINES[count]
    compiled = compile_kernel(attention, [spec_of(array) for array in args], knobs, machine)
    shared = {buffer for _, buffer, nodes in fills(compiled) if nodes}
    assert shared == {"B"}
    expected = run(attention, *args, machine=preset("tiny"), knobs=knobs)
    for seed in range(20):
        launch = Launch(compiled, args, machine, poison=True, seed=seed)
        launch.run()
        assert_same(launch.results()[0], expected)


def test_without_semaphores_for_all_everybody_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes, knobs = [(64, 96), (64, 96)], {"gm": 4, "gn": 4, "nk": 1}
    monkeypatch.setattr(context, "APART", 6)  # two for the tile, four for its operands
    compiled = compiled_for(matmul, shapes, MACHINES[4], **knobs)
    assert all(nodes == 0 for _, _, nodes in fills(compiled))
    args = [gaussian(number, *shape) for number, shape in enumerate(shapes)]
    launch = Launch(compiled, args, MACHINES[4], poison=True, seed=1)
    launch.run()
    assert_same(launch.results()[0], to_fp16(contract(args[0], args[1])))


def test_clusters_that_disagree_are_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(stage: context.StageContext, cluster: int) -> Any:
        found = entries(stage, cluster)
        if cluster != CLUSTERS[2][0]:
            for allocator in found.values():
                allocator.allocate("something else", 1)
        return found

    entries = context.StageContext.operand_memories
    monkeypatch.setattr(context.StageContext, "operand_memories", moved)
    with pytest.raises(InternalError, match="windows of clusters 0 and 4 differ"):
        compiled_for(matmul, [(64, 96), (64, 96)], PAIR, gm=4, gn=4, nk=1)


def test_the_library_on_many_clusters() -> None:
    x, w = gaussian(0, 40, 70), gaussian(1, 36, 70)
    for name in ("linear_silu", "linear_relu", "linear_gelu"):
        kernel = getattr(kernels, name)
        expected = run(kernel, x, w, machine=preset("tiny"))
        for machine in MACHINES.values():
            assert_same(run(kernel, x, w, machine=machine, poison=True, seed=3), expected)
