"""The pipeline as a whole: the same words every time, quickly, every step visible."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compiler.pipeline import PASSES, ArgSpec, compile_kernel
from compiler.program import Advance, Affine, Emit, Loop, Ring, UnitTree
from compiler.tree import show_trees, verify_trees
from kohakuaccel.errors import CallError, InternalError
from kohakutpu import isa, kernels
from kohakutpu.config import PRESETS, Machine, preset
from kohakutpu.lang import Kernel

ROOT = Path(__file__).parents[2]
SQUARE = (1024, 1024)
SHAPES = {
    "attention": [(1024, 64)] * 3,
    "batched_matmul": [(4, *SQUARE), SQUARE],
    "linear_bias": [SQUARE, SQUARE, (1024,)],
    "linear_bias_residual": [SQUARE, SQUARE, (1024,), SQUARE],
    "group_norm": [(32, 32, 1024), (32, 32), (32, 32)],
    "layernorm": [SQUARE, (1024,), (1024,)],
    "rmsnorm": [SQUARE, (1024,)],
}
LIBRARY = [name for name in kernels.__all__ if isinstance(getattr(kernels, name), Kernel)]


def specs_of(name: str) -> list[ArgSpec]:
    ins = getattr(kernels, name).ins
    return [ArgSpec(shape) for shape in SHAPES.get(name, [SQUARE] * len(ins))]


def digest(name: str, machine: str) -> str:
    compiled = compile_kernel(getattr(kernels, name), specs_of(name), {}, preset(machine))
    return hashlib.sha256(compiled.image.to_bytes()).hexdigest()


ALL = "[digest(name, machine) for name in LIBRARY for machine in ('small', 'quad')]"


def test_the_hash_seed_changes_nothing() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from compiler.tests.test_pipeline import *"
    )
    found: list[bytes] = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", f"{code}; print({ALL})"]
        found.append(subprocess.check_output(command, env=environment, cwd=ROOT))
    assert found[0] == found[1]
    here = [digest(name, machine) for name in LIBRARY for machine in ("small", "quad")]
    assert found[0].decode().strip() == str(here)


@pytest.mark.parametrize("name", LIBRARY)
def test_every_kernel_of_the_library_compiles_in_time(name: str) -> None:
    taken: list[float] = []
    for machine in PRESETS.values():
        start = time.process_time()
        compiled = compile_kernel(getattr(kernels, name), specs_of(name), {}, machine)
        taken.append(time.process_time() - start)
        assert compiled.image.machine_hash == machine.hash
        assert compiled.plan.cycles > 0
    assert min(taken) <= 0.15


def test_dumps_show_every_pass(capsys: pytest.CaptureFixture[str]) -> None:
    matmul = kernels.matmul
    compile_kernel(matmul, [ArgSpec((8, 8))] * 2, {}, preset("tiny"), dump="all")
    text = capsys.readouterr().err
    assert [p.name for p in PASSES] == [
        "trace", "specialise", "stage", "place", "synchronise", "simplify", "roll", "encode",
    ]  # fmt: skip
    places = [text.index(f"--- after {p.name}") for p in PASSES]
    assert places == sorted(places)
    for words in ("kernel matmul", "gm = 2", "stage 1 at", "gemm a=", "drain acc=", "4 words"):
        assert words in text or words == "4 words", words
    compile_kernel(matmul, [ArgSpec((8, 8))] * 2, {}, preset("tiny"), dump="roll")
    assert capsys.readouterr().err.startswith("--- after roll\nunit 0 (C)\nsync 0")


def test_the_variable_chooses_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTPU_DUMP", "stage,encode")
    compile_kernel(kernels.matmul, [ArgSpec((8, 8))] * 2, {}, preset("tiny"))
    text = capsys.readouterr().err
    assert "--- after stage" in text
    assert "--- after encode" in text
    assert "--- after roll" not in text


def test_arguments_of_another_type_are_refused() -> None:
    with pytest.raises(CallError, match="`b` is declared fp16, but the argument holds fp32"):
        compile_kernel(
            kernels.matmul, [ArgSpec((8, 8)), ArgSpec((8, 8), "fp32")], {}, preset("tiny")
        )


def sync(waits: tuple[tuple[int, int], ...] = (), posts: tuple[tuple[int, int], ...] = ()) -> Emit:
    return Emit(isa.SYNC, {"engine": 0}, waits, posts)


def test_a_lost_semaphore_is_found_before_anything_runs() -> None:
    balanced = UnitTree(0, "C", [Loop("i", 3, [sync(posts=((1, 4),))])])
    reader = UnitTree(1, "V", [Loop("j", 3, [sync(waits=((4, 1),))])])
    verify_trees([balanced, reader])
    reader.body.append(sync(waits=((4, 1),)))
    with pytest.raises(InternalError, match="semaphore 4 of node 1 is waited for 1 times too"):
        verify_trees([balanced, reader])


def test_a_loop_that_is_not_around_is_found() -> None:
    loop = Loop("i", 3)
    stray = Emit(isa.GEMM, {"a": Affine(0, ((loop, 1),))})
    with pytest.raises(InternalError, match="names loop i, not around it"):
        verify_trees([UnitTree(0, "C", [loop, stray])])


def test_trees_print() -> None:
    ring, loop = Ring("tile acc", 0, 16, 2), Loop("i", 3)
    gemm = Emit(isa.GEMM, {"a": Affine(2, ((loop, 4),), None, ring)}, ((1, 1),), ((0, 2),))
    loop.body = [gemm, Advance(ring)]
    assert show_trees([UnitTree(0, "C", [loop])]).splitlines() == [
        "unit 0 (C)",
        "  for i in 3:",
        "    gemm a=tile_acc+4*i+2 wait s1>=1 post n0:s2",
        "    advance tile acc",
    ]


@pytest.mark.parametrize("machine", PRESETS.values(), ids=list(PRESETS))
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("matmul", [(0, 5), (3, 5)]),
        ("linear_silu", [(3, 5), (0, 5)]),
        ("batched_matmul", [(0, 3, 4), (5, 4)]),
        ("silu", [(0, 7)]),
        ("softmax", [(7, 0)]),
    ],
)
def test_empty_results_need_no_program(
    name: str, shapes: list[tuple[int, ...]], machine: Machine
) -> None:
    specs = [ArgSpec(shape) for shape in shapes]
    compiled = compile_kernel(getattr(kernels, name), specs, {}, machine)
    assert compiled.image.units == ()
    assert all(0 in shape for _, shape, _ in compiled.out_specs)
    assert "estimate" in compiled.plan.pretty()


def test_a_sum_over_nothing_is_refused() -> None:
    with pytest.raises(CallError, match="the rows of `x` have no elements to compute with"):
        compile_kernel(kernels.row_sum, [ArgSpec((7, 0))], {}, preset("tiny"))
