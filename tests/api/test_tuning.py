"""`tune` finds knobs that are at least as fast as the start, and runs what it is told to."""

from collections.abc import Iterator

import numpy as np
import pytest

from compiler.pipeline import ArgSpec, compile_kernel
from compiler.tuning import search, sizes_around
from kohakuaccel.errors import CallError, KernelError
from kohakuaccel.lang import dims, grid
from kohakutpu import api as ktpu
from kohakutpu import kernels
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import kernel

pytestmark = pytest.mark.golden
M, N = dims("M, N")


@pytest.fixture(autouse=True)
def small() -> Iterator[ktpu.Session]:
    with ktpu.device("golden", machine="small") as device:
        yield device


@kernel
def doubled(x=L.In(M, N), y=L.Out(M, N), *, n=1, factor=2.0):
    for r in grid(x.rows(n)):
        y[r] <<= x[r] * factor


def test_the_best_of_what_was_tried() -> None:
    x = ktpu.tensor(np.ones((200, 96)))
    found = ktpu.tune(doubled, x, search={"n": (1, 2, 8, 64, 4096)}, factor=3.0)
    assert found.start.knobs == {"n": 1}
    assert 200 >= found.knobs["n"] > 1
    estimates = [c.estimate for c in found.candidates]
    assert estimates == sorted(estimates)
    assert estimates[0] < found.start.estimate / 3
    for candidate in found.candidates:
        assert candidate.estimate == doubled.plan(x, factor=3.0, **candidate.knobs).cycles
        assert candidate.measured is None
    best = doubled(x, factor=3.0, **found.knobs).numpy()
    assert np.array_equal(best, np.full((200, 96), 3, np.float16))


def test_open_knobs_are_searched_by_themselves() -> None:
    x, w = ktpu.zeros((96, 200)), ktpu.zeros((64, 200))
    found = ktpu.tune(kernels.matmul, x, w, tries=30)
    assert set(found.knobs) == {"gm", "gn", "nk"}
    assert len(found.candidates) + len(found.refused) <= 30
    assert found.candidates[0].estimate <= found.start.estimate
    assert found.start.estimate == kernels.matmul.plan(x, w).cycles
    fixed = ktpu.tune(kernels.matmul, x, w, tries=30, nk=2)
    assert set(fixed.knobs) == {"gm", "gn"}


def test_measured_cycles_decide(small: ktpu.Session) -> None:
    x = ktpu.tensor(np.ones((64, 48)))
    with ktpu.device("golden", machine="small", poison=True) as other:
        other.reset_stats()
    found = ktpu.tune(doubled, x, search={"n": (1, 2, 4, 8, 16, 32, 64)}, measure=other)
    ran = [c for c in found.candidates if c.measured is not None]
    assert found.start in ran
    assert 2 <= len(ran) <= 5
    assert list(found.candidates[: len(ran)]) == ran
    cycles = [c.measured or 0 for c in ran]
    assert cycles == sorted(cycles)
    with ktpu.profile() as seen:
        doubled(x, **found.knobs)
    assert seen.cycles == cycles[0]
    assert other.stats().dispatches == len(ran)
    assert ktpu.device() is small  # measuring selects nothing
    named = ktpu.tune(doubled, x, search={"n": (1, 2)}, measure="golden")
    assert named.candidates[0].measured


def test_what_does_not_fit_is_refused_with_its_reason() -> None:
    x = ktpu.zeros((4000, 1000))
    found = ktpu.tune(kernels.softmax, x, search={"n": (4, 3000)})
    assert found.knobs == {"n": 4} or found.knobs["n"] < 3000
    assert [trial.knobs for trial in found.refused] == [{"n": 3000}]
    assert found.refused[0].why
    assert "1 of them refused" in str(found)


def test_mistakes() -> None:
    x = ktpu.zeros((4, 4))
    with pytest.raises(CallError, match="all have a value: there is nothing to search"):
        ktpu.tune(doubled, x)
    with pytest.raises(CallError, match="has no knob `m`") as caught:
        ktpu.tune(doubled, x, search={"m": (1,)})
    assert "n, factor" in caught.value.fix
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    with pytest.raises(CallError, match="nothing to try for the knob `n`"):
        ktpu.tune(doubled, x, search={"n": ()})
    with pytest.raises(KernelError):
        ktpu.tune(kernels.softmax, x, n=-1)
    with pytest.raises(CallError, match="lacks `x`"):
        ktpu.tune(doubled)
    with ktpu.device("golden", machine="tiny") as tiny:
        pass
    with pytest.raises(CallError, match="another"):
        ktpu.tune(doubled, x, search={"n": (1, 2)}, measure=tiny)


def test_the_table() -> None:
    x = ktpu.zeros((64, 48))
    lines = str(ktpu.tune(doubled, x, search={"n": (1, 4, 16)}, measure="golden")).splitlines()
    assert lines[0].split() == ["n", "estimate", "measured"]
    assert lines[-1] == "doubled: 3 choices tried, 0 of them refused"
    assert sum(line.endswith("start") for line in lines) == 1


def test_a_search_climbs_over_two_knobs() -> None:
    specs = [ArgSpec((256, 256)), ArgSpec((256, 256))]
    machine = preset("small")
    sizes = {"gm": (2, 4, 8, 16), "gn": (2, 4, 8, 16)}
    found = search(kernels.matmul, specs, machine, {"gm": 2, "gn": 16, "nk": 8}, sizes, 100)
    best = min(found.trials, key=lambda trial: trial.cycles or 1 << 60)
    every = [
        compile_kernel(kernels.matmul, specs, {"gm": gm, "gn": gn, "nk": 8}, machine).plan.cycles
        for gm in sizes["gm"]
        for gn in sizes["gn"]
    ]
    assert found.trials[0].knobs == {"gm": 2, "gn": 16}
    assert best.cycles == min(every)
    assert len(found.trials) <= 16


def test_sizes_around() -> None:
    assert sizes_around(1) == (1, 2, 3, 4, 6, 8, 12, 16)
    assert sizes_around(40)[0] == 3
    assert 40 in sizes_around(40)
    assert sizes_around(40)[-1] == 512
