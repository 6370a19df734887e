"""`L.print` shows what a kernel computes with, and changes nothing of it."""

import linecache
import math
import re
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from kohakuaccel.lang import dims, grid, stage, sweep, units
from kohakutpu import api as ktpu
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel

pytestmark = pytest.mark.golden
M, K, N, E = dims("M, K, N, E")


@pytest.fixture(autouse=True, params=["small", "tiny"])
def hostile(request: pytest.FixtureRequest) -> Iterator[None]:
    whole = np.printoptions(threshold=sys.maxsize, linewidth=100_000)
    with ktpu.device("golden", machine=request.param, poison=True), whole:
        yield


def shown(text: str) -> list[tuple[str, np.ndarray]]:
    """Labels and elements of what was printed; ``--`` becomes -1."""
    found: list[tuple[str, np.ndarray]] = []
    for head, body in re.findall(r"^\S.*?: (.*)\n((?:  .*\n?|\n)*)", text, re.MULTILINE):
        label, extents = re.match(r"(.*) in \w+, (.*), fp\d\d", head).groups()  # pyright: ignore
        numbers = re.sub(r"[\[\]]", " ", body.replace("--", "-1")).split()
        shape = [int(n) for n in extents.split(" x ")]
        found.append((label, np.array(numbers, float).reshape(shape)))
    return found


def make(printing: bool, causal: bool = False) -> Kernel:
    """Attention that shows its steps."""

    @kernel
    def attention(
        q=L.In(..., M, K), k=L.In(..., N, K), v=L.In(..., N, E), o=L.Out(..., M, E), *, keys=32
    ):
        with units(q.rows(32)) as i:
            top, total, out = L.state(-math.inf), L.state(0.0), L.state(0.0, E)
            for j in sweep(i + 1 if causal else k.rows(keys)):
                s = L.tile()
                for c in sweep(q.chunks32(2)):
                    s += q[i, c] @ k[j, c]
                m = L.maximum(top, L.row_max(s))
                p = L.exp2(s - m)
                if printing:
                    L.print(s)
                    L.print(m, "running maximum")
                    L.print(p)
                pv = L.tile()
                pv += p @ v[j]
                total <<= total * L.exp2(top - m) + L.row_sum(p)
                out <<= out * L.exp2(top - m) + pv
                top <<= m
            if printing:
                L.print(total)
                L.print(out)
            o[i] <<= out / total

    return attention


def operands(*shapes: tuple[int, ...]) -> list[ktpu.Tensor]:
    rng = np.random.default_rng(3)
    return [ktpu.tensor(rng.integers(-2, 3, shape).astype(np.float16)) for shape in shapes]


def test_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    @kernel
    def means(x=L.In(M, N), y=L.Out(M)):
        for r in grid(x.rows(4)):
            m = L.row_mean(x[r])
            L.print(m)
            y[r] <<= m

    means(ktpu.tensor([[1, 2], [10, 20.5], [-300, 0]]))
    lines = capsys.readouterr().out.splitlines()
    place, _, rest = lines[0].rpartition(": ")
    assert place.startswith(__file__)
    line = int(place.rpartition(":")[2])
    assert linecache.getline(__file__, line).strip() == "L.print(m)"
    assert rest == "m in means, 3 x 1, fp32"
    assert lines[1:] == ["  [[  1.5]", "   [15.25]", "   [ -150]]"]


def test_rows_scalars_and_shared_rows(capsys: pytest.CaptureFixture[str]) -> None:
    @kernel
    def scaled(x=L.In(..., M, N), w=L.In(N), s=L.In(), y=L.Out(..., M, N)):
        for r in grid(x.rows(2)):
            L.print(x[r] * w)
            L.print(w)
            L.print(s)
            y[r] <<= x[r] * w * s

    x, w, s = operands((2, 5, 7), (7,), ())
    scaled(x, w, s)
    product, shared, scalar = (values for _, values in shown(capsys.readouterr().out))
    np.testing.assert_array_equal(product, x.numpy() * w.numpy())
    np.testing.assert_array_equal(shared, np.broadcast_to(w.numpy(), (2, 5, 7)))
    np.testing.assert_array_equal(scalar, np.broadcast_to(s.numpy(), (2, 5, 1)))


def test_parts_and_tiles(capsys: pytest.CaptureFixture[str]) -> None:
    @kernel
    def doubled(x=L.In(...), y=L.Out(...)):
        for e in grid(x.parts(16)):
            L.print(x[e] * 2)
            y[e] <<= x[e]

    @kernel
    def product(a=L.In(M, K), b=L.In(N, K), bias=L.In(N), c=L.Out(M, N, dtype="fp32")):
        for i, j in grid(a.tiles(1), b.tiles(3)):
            acc = L.tile(nk=1)
            for k in sweep(a.chunks32(1)):
                acc += a[i, k] @ b[j, k]
            L.print(acc)
            L.print(acc + bias[j])
            L.print(L.row_max(acc))
            c[i, j] <<= acc

    x, a, b, bias = operands((3, 21), (9, 40), (11, 40), (11,))
    doubled(x)
    ((label, values),) = shown(capsys.readouterr().out)
    assert label == "x[e] * 2"
    np.testing.assert_array_equal(values, x.numpy() * 2)
    exact = a.numpy().astype(float) @ b.numpy().astype(float).T
    product(a, b, bias)
    acc, biased, greatest = (values for _, values in shown(capsys.readouterr().out))
    np.testing.assert_array_equal(acc, exact)
    np.testing.assert_array_equal(biased, exact + bias.numpy())
    np.testing.assert_array_equal(greatest, np.repeat(exact.max(1)[:, None], 11, axis=1))


def test_in_loops_that_carry_something(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = operands((2, 33, 8), (2, 40, 8), (2, 40, 5))
    q, k = (x.numpy().astype(float) for x in arguments[:2])
    found = make(printing=True)(*arguments)
    texts = dict(shown(capsys.readouterr().out))
    scores = q @ k.transpose(0, 2, 1)
    np.testing.assert_array_equal(texts["s"], scores)
    first, every = scores[..., :32].max(-1), scores.max(-1)
    running = np.concatenate([first[..., None].repeat(32, -1), every[..., None].repeat(8, -1)], -1)
    np.testing.assert_array_equal(texts["running maximum"], running)
    np.testing.assert_allclose(texts["p"], np.exp2(scores - running), rtol=1e-5)
    total = np.exp2(scores - every[..., None]).sum(-1, keepdims=True)
    np.testing.assert_allclose(texts["total"], total, rtol=1e-5)
    np.testing.assert_array_equal(found.numpy(), make(printing=False)(*arguments).numpy())
    np.testing.assert_allclose(texts["out"] / texts["total"], found.numpy(), rtol=2e-3, atol=1e-3)


def test_what_no_instance_has_is_blank(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = operands((40, 8), (40, 8), (40, 5))
    make(printing=True, causal=True)(*arguments)
    text = capsys.readouterr().out
    scores = dict(shown(text))["s"]
    exact = arguments[0].numpy().astype(float) @ arguments[1].numpy().astype(float).T
    exact[:32, 32:] = -1
    np.testing.assert_array_equal(scores, exact)
    assert text.count("--") >= 32 * 8


def test_nan_is_not_blank(capsys: pytest.CaptureFixture[str]) -> None:
    @kernel
    def plain(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            L.print(x[r])
            y[r] <<= x[r]

    plain(ktpu.tensor([[np.nan, np.inf, -np.inf]]))
    assert "[[ nan  inf -inf]]" in capsys.readouterr().out


def test_in_a_stage_of_several_and_a_tile_through_memory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @kernel
    def two(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N, dtype="fp32")
        with stage(x.rows(2)) as r:
            L.print(x[r] + 1)
            h[r] <<= x[r] + 1
        with stage(x.rows(2)) as r:
            L.print(h[r])
            y[r] <<= h[r]

    (x,) = operands((5, 20))
    two(x)
    (_, first), (_, second) = shown(capsys.readouterr().out)
    np.testing.assert_array_equal(first, x.numpy() + 1)
    np.testing.assert_array_equal(second, first)


def test_without_elements(capsys: pytest.CaptureFixture[str]) -> None:
    @kernel
    def plain(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            L.print(x[r])
            y[r] <<= x[r]

    assert plain(ktpu.zeros((0, 4))).shape == (0, 4)
    assert "0 x 4" in capsys.readouterr().out
