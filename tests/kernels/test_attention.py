"""Attention: bits as stated, close to float64, masks of every kind, no score in memory."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from kohakuaccel.errors import CallError, KernelError
from kohakutpu import api as ktpu
from kohakutpu.api.attention import BLOCK_K, PRECISIONS
from kohakutpu.kernels.attention import kernel_for
from tests.kernels import oracle, statements
from tests.kernels.statements import LOG2_E, Array

pytestmark = pytest.mark.golden


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def tensor(x: Array) -> ktpu.Tensor:
    return ktpu.tensor(x, dtype="fp32" if x.dtype == np.float32 else "fp16")


def operands(queries: int, keys: int, width: int, out: int, *lead: int) -> list[Any]:
    shapes = ((queries, width), (keys, width), (keys, out))
    return [normal(*lead, *shape, seed=i) for i, shape in enumerate(shapes)]


def stated(
    q: Array, k: Array, v: Array, *, visible: Any = None, bias: Any = None,
    block: int = BLOCK_K, scores: str = "default", values: str = "default", scale: Any = None,
    table: Any = None,
) -> Array:  # fmt: skip
    """Every head by itself; masks broadcast, heads share keys."""
    lead = q.shape[:-2]
    group = q.shape[-3] // k.shape[-3] if lead else 1
    k, v = (np.repeat(x, group, axis=-3) if lead else x for x in (k, v))
    k, v = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (k, v))
    whole = (*lead, q.shape[-2], k.shape[-2])
    visible, bias = (None if x is None else np.broadcast_to(x, whole) for x in (visible, bias))
    result = np.zeros((*q.shape[:-1], v.shape[-1]), np.float16)
    precisions = iter((scores, values) * (1 << 20))

    def matmul(a: Array, b: Array) -> Array:
        return oracle.matmul(a, b, next(precisions))

    factor = (q.shape[-1] ** -0.5 if scale is None else scale) * LOG2_E
    for head in np.ndindex(*lead):
        seen, added = (None if x is None else x[head] for x in (visible, bias))
        result[head] = statements.attention(
            q[head], k[head], v[head], matmul, block, factor, seen, added, table
        )
    return result


def exact(q: Array, k: Array, v: Array, visible: Any = None) -> Array:
    q, k, v = (x.astype(float) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    power = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return power / power.sum(axis=-1, keepdims=True) @ v


def rms(ours: Array, want: Array) -> float:
    return float(np.sqrt(np.mean((ours - want) ** 2) / np.mean(want**2)))


# ------------------------------------------------------------------------------- the kernel


@pytest.mark.parametrize("shape", [
    (1, 1, 1, 1), (3, 5, 7, 9), (33, 70, 64, 40), (70, 33, 40, 17), (64, 128, 32, 64),
])  # fmt: skip
@pytest.mark.parametrize(("block_q", "block_k"), [(4, 32), (16, 64), (32, 32)])
@pytest.mark.parametrize("machine", ["tiny", "duo"])
def test_shapes_and_blocks(
    machine: str, block_q: int, block_k: int, shape: tuple[int, int, int, int]
) -> None:
    values = operands(*shape)
    with ktpu.device("golden", machine=machine, poison=True):
        call = kernel_for()(*(tensor(x) for x in values), block_q=block_q, block_k=block_k)
        oracle.assert_same_bits(call.numpy(), stated(*values, block=block_k))


@pytest.mark.parametrize("scores", ["default", "high"])
@pytest.mark.parametrize("values", ["default", "left", "high"])
def test_precisions(scores: str, values: str) -> None:
    given = operands(20, 75, 40, 24, 2)
    knobs: dict[str, Any] = {"scores": scores, "values": values}
    ours = kernel_for()(*(tensor(x) for x in given), block_q=8, block_k=32, **knobs).numpy()
    oracle.assert_same_bits(ours, stated(*given, block=32, **knobs))


@pytest.mark.parametrize("forms", [
    (True, False, False), (False, True, False), (False, False, True), (True, True, True),
])  # fmt: skip
def test_operands_that_hide(forms: tuple[bool, bool, bool]) -> None:
    given, rng = operands(21, 75, 33, 20, 2, 1), np.random.default_rng(3)
    keys = (rng.random((2, 1, 75)) > 0.3).astype(np.float16)
    bias = normal(1, 21, 75, seed=7)
    bias[0, 3, 70:] = -np.inf
    after, at = np.arange(21, dtype=np.float32) + 5, np.arange(75, dtype=np.float32)
    visible = np.ones((2, 1, 21, 75), bool)
    if forms[0]:
        visible &= (keys != 0)[:, :, None, :]
    if forms[2]:
        visible &= at <= after[:, None]
    masks = [x for x, used in zip((keys, bias), forms, strict=False) if used]
    masks += [after, at] if forms[2] else []
    ours = kernel_for(*forms)(*(tensor(x) for x in (*given, *masks)), block_q=8, block_k=32)
    want = stated(*given, visible=visible, bias=bias if forms[1] else None, block=32)
    oracle.assert_same_bits(ours.numpy(), want)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(21, 75, 33, 20), (64, 64, 32, 16)])
def test_a_table_goes_with_the_program(shape: tuple[int, ...], bias: bool) -> None:
    """Here a penalty that grows with the distance, as in ALiBi."""
    queries, count, width, out = shape
    values, slopes = operands(queries, count, width, out, 2), normal(2, queries, count, seed=9)
    table = -0.3 * np.abs(np.subtract.outer(np.arange(queries), np.arange(count)))
    given = [*values, slopes] if bias else values
    ours = kernel_for(bias=bias)(*(tensor(x) for x in given), block_q=8, block_k=32, table=table)
    want = stated(*values, bias=slopes if bias else None, table=table, block=32)
    oracle.assert_same_bits(ours.numpy(), want)


@pytest.mark.parametrize("forms", [(False, False, False), (True, True, True)])
@pytest.mark.parametrize("machine", ["tiny", "small", "duo"])
def test_interleavings(machine: str, forms: tuple[bool, bool, bool]) -> None:
    values = operands(17, 70, 40, 20, 2)
    if forms[0]:
        values += [np.ones((2, 70), np.float16), normal(2, 17, 70)]
        values += [np.arange(17, dtype=np.float32) + 53, np.arange(70, dtype=np.float32)]

    def run(**options: Any) -> bytes:
        with ktpu.device("golden", machine=machine, poison=True, **options) as session:
            call = kernel_for(*forms)(*(tensor(x) for x in values), block_q=8, block_k=32)
            found = call.numpy().tobytes()
            session.close()
            return found

    want = run()
    assert all(run(seed=seed) == want for seed in range(9))


SIZES = st.sampled_from([1, 3, 4, 7, 16, 17, 32, 33, 40, 65, 70, 100])


@settings(max_examples=25, deadline=None)
@drawn(
    queries=SIZES, count=SIZES, width=SIZES, out=SIZES, lead=st.sampled_from([(), (1,), (2, 1)]),
    forms=st.tuples(st.booleans(), st.booleans(), st.booleans()), seed=st.integers(0, 1 << 16),
    precisions=st.tuples(*[st.sampled_from(["default", "left", "high"])] * 2),
    blocks=st.sampled_from([(4, 32), (12, 64), (16, 32)]),
    machine=st.sampled_from(["small", "quad"]),
)  # fmt: skip
def test_anything(
    queries: int, count: int, width: int, out: int, lead: tuple[int, ...],
    forms: tuple[bool, bool, bool], seed: int, precisions: tuple[str, str],
    blocks: tuple[int, int], machine: str,
) -> None:  # fmt: skip
    given, rng = operands(queries, count, width, out, *lead), np.random.default_rng(seed)
    keys = (rng.random((*lead, count)) > 0.3).astype(np.float16)
    bias = rng.standard_normal((*lead, queries, count)).astype(np.float16)
    bias[rng.random(bias.shape) < 0.1] = -np.inf
    after = rng.integers(-2, count + 2, queries).astype(np.float32)
    at = np.arange(count, dtype=np.float32)
    visible = np.ones((*lead, queries, count), bool)
    visible = visible & (keys != 0)[..., None, :] if forms[0] else visible
    visible = visible & (at <= after[:, None]) if forms[2] else visible
    masks = [x for x, used in zip((keys, bias), forms, strict=False) if used]
    masks += [after, at] if forms[2] else []
    scores, values = precisions
    with ktpu.device("golden", machine=machine, poison=True, seed=seed) as session:
        ours = kernel_for(*forms)(
            *(tensor(x) for x in (*given, *masks)),
            block_q=blocks[0], block_k=blocks[1], scores=scores, values=values,
        ).numpy()  # fmt: skip
        session.close()
    want = stated(
        *given, visible=visible, bias=bias if forms[1] else None,
        block=blocks[1], scores=scores, values=values,
    )  # fmt: skip
    oracle.assert_same_bits(ours, want)


# ----------------------------------------------------------------------------- tensors


@pytest.mark.parametrize(
    "shape", [(1, 1, 8, 8), (50, 50, 32, 32), (9, 300, 64, 40), (300, 9, 64, 64)]
)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_tensors(shape: tuple[int, int, int, int], causal: bool, precision: str) -> None:
    queries, keys = shape[:2]
    values = operands(*shape, 2)
    visible = np.tril(np.ones((queries, keys), bool), keys - queries) if causal else None
    ours = ktpu.attention(*(tensor(x) for x in values), causal=causal, precision=precision)
    scores, products = PRECISIONS[precision]
    want = stated(*values, visible=visible, scores=scores, values=products)
    oracle.assert_same_bits(ours.numpy(), want)


@pytest.mark.parametrize(("precision", "bound"), [("default", 1.5e-2), ("high", 2e-3)])
@pytest.mark.parametrize("causal", [False, True])
def test_error(causal: bool, precision: str, bound: float, hostile: ktpu.Session) -> None:
    """The shape and the bounds that the project promises."""
    values = operands(512, 512, 64, 64, 8)
    q, k, v = (tensor(x) for x in values)
    hostile.reset_stats()
    ours = ktpu.attention(q, k, v, causal=causal, precision=precision)
    stats = hostile.stats()
    visible = np.tril(np.ones((512, 512), bool)) if causal else None
    assert rms(ours.numpy(), exact(*values, visible=visible)) <= bound
    # No score and no probability leaves the chip: what is written is the result.
    assert stats.memory_written == 8 * 512 * 64 // 16


def test_blocks_of_queries_are_as_large_as_fit(hostile: ktpu.Session) -> None:
    q, k, v = (tensor(x) for x in operands(512, 512, 64, 64, 8))
    hostile.reset_stats()
    ktpu.attention(q, k, v).numpy()
    words = 8 * 512 * 64 // 16
    # Two operands once, the third one for every 128 queries; and the program.
    assert (2 + 4) * words < hostile.stats().memory_read < (2 + 4) * words + 256


@pytest.mark.parametrize(("heads", "groups"), [((2, 6), (2, 2)), ((2, 6), (1, 3)), ((4,), (1,))])
def test_heads_share_keys(heads: tuple[int, ...], groups: tuple[int, ...]) -> None:
    q, (k, v) = normal(*heads, 9, 32), (normal(*groups, 40, 32, seed=s) for s in (1, 2))
    ours = ktpu.attention(*(tensor(x) for x in (q, k, v)), precision="fast").numpy()
    oracle.assert_same_bits(ours, stated(q, k, v))


def test_heads_side_by_side_are_no_copy(hostile: ktpu.Session) -> None:
    """As a projection leaves them: ``(B, L, H, D)``, here of three projections in one."""
    values = normal(2, 20, 3, 4, 32)
    together = tensor(values.reshape(2, 20, 3 * 4 * 32)).reshape(2, 20, 3, 4, 32)
    q, k, v = (together[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    hostile.reset_stats()
    ours = ktpu.attention(q, k, v, precision="fast")
    merged = ours.transpose(0, 2, 1, 3).reshape(2, 20, 4 * 32)
    assert hostile.stats().memory_written == 2 * 4 * 20 * 2
    want = stated(*(values[:, :, i].transpose(0, 2, 1, 3) for i in range(3)))
    oracle.assert_same_bits(ours.numpy(), want)
    oracle.assert_same_bits(merged.numpy(), want.transpose(0, 2, 1, 3).reshape(2, 20, 128))


@pytest.mark.parametrize("forms", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", [(100, 100), (30, 94), (70, 60)])
def test_causal_beside_other_masks(shape: tuple[int, int], forms: tuple[bool, bool]) -> None:
    values, (queries, count) = operands(*shape, 32, 20, 2), shape
    keys = (np.random.default_rng(4).random((2, count)) > 0.4).astype(np.float16)
    bias = normal(2, *shape, seed=5)
    visible = np.tril(np.ones(shape, bool), count - queries)
    visible = visible & (keys != 0)[:, None, :] if forms[0] else visible
    masks = {
        n: tensor(x)
        for n, x, used in zip(("keys", "bias"), (keys, bias), forms, strict=True)
        if used
    }
    ours = ktpu.attention(*(tensor(x) for x in values), **masks, causal=True, precision="fast")
    want = stated(*values, visible=visible, bias=bias if forms[1] else None)
    oracle.assert_same_bits(ours.numpy(), want)


def test_what_the_kernel_cannot_mask() -> None:
    q, keys = ktpu.zeros((8, 8)), ktpu.zeros((8,))
    with pytest.raises(KernelError, match="needs the positions"):
        kernel_for(keys=True)(q, q, q, keys, block_q=32, block_k=32, causal=True)
    with pytest.raises(KernelError, match="needs the positions"):
        kernel_for()(q, q, q, block_q=32, block_k=32, causal=True, offset=32)


@pytest.mark.parametrize("lead", [(), (4,), (1,), (2, 1), (2, 4), (1, 4)])
def test_masks_broadcast(lead: tuple[int, ...]) -> None:
    q, (k, v) = normal(2, 4, 9, 32), (normal(2, 2, 40, 32, seed=s) for s in (1, 2))
    keys = (np.random.default_rng(4).random((*lead, 40)) > 0.4).astype(np.float16)
    bias = normal(*lead, 9, 40, seed=5)
    ours = ktpu.attention(
        *(tensor(x) for x in (q, k, v)), keys=tensor(keys), bias=tensor(bias), precision="fast"
    )
    want = stated(q, k, v, visible=(keys != 0)[..., None, :], bias=bias)
    oracle.assert_same_bits(ours.numpy(), want)


def test_scale() -> None:
    values = operands(5, 40, 32, 32)
    ours = ktpu.attention(*(tensor(x) for x in values), scale=0.5, precision="fast").numpy()
    oracle.assert_same_bits(ours, stated(*values, scale=0.5))


# ------------------------------------------------------------------- what hides, and NaN


def test_a_query_that_sees_nothing_is_zero() -> None:
    q, k, v = operands(6, 40, 32, 32)
    nothing = ktpu.attention(*(tensor(x) for x in (q, k, v)), keys=tensor(np.zeros(40))).numpy()
    assert (nothing == 0).all()
    bias = np.zeros((6, 40), np.float16)
    bias[2] = -np.inf
    ours = ktpu.attention(*(tensor(x) for x in (q, k, v)), bias=tensor(bias)).numpy()
    assert (ours[2] == 0).all()
    plain = ktpu.attention(*(tensor(x) for x in (q, k, v))).numpy()
    assert np.array_equal(np.delete(ours, 2, 0), np.delete(plain, 2, 0))
    assert ktpu.attention(tensor(q), ktpu.zeros((0, 32)), ktpu.zeros((0, 5))).shape == (6, 5)


def test_nan_in_a_hidden_key_has_no_effect_and_in_its_value_has() -> None:
    q, k, v = operands(6, 140, 32, 32)
    keys = np.ones(140, np.float16)
    keys[130:] = 0
    want = ktpu.attention(*(tensor(x) for x in (q, k, v)), keys=tensor(keys)).numpy()
    k[133:] = np.nan
    ours = ktpu.attention(*(tensor(x) for x in (q, k, v)), keys=tensor(keys)).numpy()
    oracle.assert_same_bits(ours, want)
    v[135, 7] = np.nan
    ours = ktpu.attention(*(tensor(x) for x in (q, k, v)), keys=tensor(keys)).numpy()
    assert np.isnan(ours[:, 7]).all()
    oracle.assert_same_bits(np.delete(ours, 7, 1), np.delete(want, 7, 1))


def test_nan_that_is_seen_reaches_its_query_alone() -> None:
    q, k, v = operands(6, 40, 32, 32)
    want = ktpu.attention(*(tensor(x) for x in (q, k, v))).numpy()
    q[3, 5] = np.nan
    ours = ktpu.attention(*(tensor(x) for x in (q, k, v))).numpy()
    assert np.isnan(ours[3]).all()
    oracle.assert_same_bits(np.delete(ours, 3, 0), np.delete(want, 3, 0))


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(("shapes", "options", "message"), [
    (((3, 8), (4, 7), (4, 5)), {}, r"q \(3, 8\), k \(4, 7\), v \(4, 5\)"),
    (((3, 8), (4, 8), (5, 5)), {}, "k and v have as many rows"),
    (((3, 8), (2, 4, 8), (2, 4, 5)), {}, "as many axes"),
    (((3, 2, 8), (2, 4, 8), (2, 4, 5)), {}, "3 heads of queries, 2 of keys, 2 of values"),
    (((2, 2, 2, 8), (3, 2, 4, 8), (3, 2, 4, 5)), {}, "do not broadcast"),
    (((3, 8), (4, 8), (4, 5)), {"scale": -1}, "scale is -1"),
    (((3, 8), (4, 8), (4, 5)), {"scale": float("nan")}, "scale is nan"),
    (((3, 8), (4, 8), (4, 5)), {"precision": "low"}, "precision is 'low'"),
    (((3, 8), (4, 8), (4, 5)), {"keys": (3,)}, r"keys has shape \(3,\); it broadcasts to \(4,\)"),
    (((3, 8), (4, 8), (4, 5)), {"bias": (4,)}, r"bias has shape \(4,\); it broadcasts to \(3, 4\)"),
    (((2, 3, 8), (2, 4, 8), (2, 4, 5)), {"keys": (3, 4)}, "all but the last axis"),
])  # fmt: skip
def test_refusals(shapes: Any, options: dict[str, Any], message: str) -> None:
    q, k, v = (ktpu.zeros(shape) for shape in shapes)
    masks: dict[str, Any] = {
        n: ktpu.zeros(x) if isinstance(x, tuple) else x for n, x in options.items()
    }
    with pytest.raises(CallError, match=message) as caught:
        ktpu.attention(q, k, v, **masks)
    assert caught.value.loc is not None
    assert "attention(" in caught.value.loc.text
