"""Group normalisation: to the bit as stated, and close to the definition."""

import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from kohakutpu import kernels
from kohakutpu.kernels import wide as pieces
from tests.kernels import oracle
from tests.kernels.statements import Array, half, number, row_sum, rsqrt, wide

pytestmark = pytest.mark.golden

SHAPES = [(1, 1, 1), (3, 5, 33), (2, 3, 5, 33), (4, 8, 256), (2, 1, 6, 1000)]


def operands(shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(list(shape))
    sizes = (shape, shape[-3:-1], shape[-3:-1])
    x, w, b = (rng.standard_normal(size).astype(np.float16) for size in sizes)
    return x, w, b


def stated(x: Array, w: Array, b: Array, eps: float = 1e-5, piece: int | None = None) -> Array:
    share = number(1 / (x.shape[-2] * x.shape[-1]))

    def over_group(sums: Array) -> Array:
        """Add sums ``(..., C, 1)`` of channels over the channels."""
        return row_sum(sums.swapaxes(-1, -2))

    def along(values: Array) -> Array:
        """Add a channel's elements, piece by piece if a piece is shorter."""
        if piece is None:
            return row_sum(values)
        found = np.zeros((*values.shape[:-1], 1), np.float32)
        for first in range(0, values.shape[-1], piece):
            found = found + row_sum(values[..., first : first + piece])
        return found

    mean = over_group(along(wide(x))) * share
    centred = wide(x) - mean
    scale = rsqrt(over_group(along(centred * share * centred)) + number(eps))
    return half(centred * scale * wide(w)[..., None] + wide(b)[..., None])


def exact(x: Array, w: Array, b: Array, eps: float = 1e-5) -> Array:
    values = x.astype(float)
    centred = values - values.mean(axis=(-1, -2), keepdims=True)
    variance = (centred**2).mean(axis=(-1, -2), keepdims=True)
    return centred / np.sqrt(variance + eps) * w.astype(float)[..., None] + b[..., None]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("machine", ["tiny", "duo"])
def test_shapes(shape: tuple[int, ...], machine: str) -> None:
    values = operands(shape)
    with ktpu.device("golden", machine=machine, poison=True):
        ours = kernels.group_norm(*(ktpu.tensor(v) for v in values)).numpy()
        blocks = kernels.group_norm(*(ktpu.tensor(v) for v in values), n=4).numpy()
    oracle.assert_same_bits(ours, stated(*values))
    oracle.assert_same_bits(blocks, ours)
    oracle.assert_close(ours, exact(*values), 0.6, 1e-4)


@pytest.mark.parametrize("shape", [(3, 5, 33), (2, 2, 6, 1030), (1, 1, 3, 20000)])
@pytest.mark.parametrize("machine", ["tiny", "duo"])
def test_channels_of_any_length(shape: tuple[int, ...], machine: str) -> None:
    values = operands(shape)
    with ktpu.device("golden", machine=machine, poison=True):
        ours = pieces.group_norm(*(ktpu.tensor(v) for v in values)).numpy()
        oracle.assert_same_bits(ours, stated(*values, piece=pieces.PIECE))
        if shape[-1] == 20000:
            x, w, b = (ktpu.tensor(v) for v in values)
            groups = ktpu.group_norm(x.reshape(1, 3, 20000), 1, w.reshape(3), b.reshape(3))
            oracle.assert_same_bits(groups.numpy().reshape(shape), ours)


def test_groups_far_from_zero() -> None:
    x, w, b = operands((2, 4, 100))
    x = (x + np.float16(1000)).astype(np.float16)
    ours = kernels.group_norm(*(ktpu.tensor(v) for v in (x, w, b))).numpy()
    oracle.assert_close(ours, exact(x, w, b), 1, 2e-3)


def test_a_group_with_nan_leaves_the_others_alone() -> None:
    x, w, b = operands((2, 3, 4, 20))
    want = exact(x, w, b)
    x[1, 2, 3, 19] = np.nan
    ours = kernels.group_norm(*(ktpu.tensor(v) for v in (x, w, b))).numpy()
    assert np.isnan(ours[1, 2]).all()
    oracle.assert_close(ours[0], want[0], 0.6, 1e-4)
    oracle.assert_close(ours[1, :2], want[1, :2], 0.6, 1e-4)


@pytest.mark.parametrize(
    "shape", [(2, 6, 4, 16), (1, 4, 3, 5), (3, 8), (2, 4, 2, 3, 16), (2, 3, 0)]
)
@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_tensors(shape: tuple[int, ...], groups: int) -> None:
    rng = np.random.default_rng(list(shape))
    x, w, b = (rng.standard_normal(s).astype(np.float16) for s in (shape, shape[1:2], shape[1:2]))

    def call() -> ktpu.Tensor:
        return ktpu.group_norm(ktpu.tensor(x), groups, ktpu.tensor(w), ktpu.tensor(b))

    if shape[1] % groups:
        with pytest.raises(CallError, match=f"channels do not fall into {groups} groups"):
            call()
        return
    parts = (shape[0], groups, shape[1] // groups, int(np.prod(shape[2:])))
    ours = call().numpy()
    assert ours.shape == shape
    if x.size:
        want = stated(x.reshape(parts), w.reshape(parts[1:3]), b.reshape(parts[1:3]))
        oracle.assert_same_bits(ours, want.reshape(shape))


def test_refusals() -> None:
    x, w = ktpu.zeros((2, 6, 4)), ktpu.zeros((6,))
    for groups in (0, -1, 4, 1.5):
        with pytest.raises(CallError, match="6 channels do not fall into"):
            ktpu.group_norm(x, groups, w, w)  # pyright: ignore[reportArgumentType]
    with pytest.raises(CallError, match=r"w \(5,\) and b \(6,\)"):
        ktpu.group_norm(x, 2, ktpu.zeros((5,)), w)
    with pytest.raises(CallError, match=r"x has shape \(6,\)"):
        ktpu.group_norm(w, 2, w, w)


@pytest.mark.parametrize("shape", [(1, 6), (2, 5, 12), (2, 3, 5, 6), (1, 9, 7, 48)])
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_channels_last(shape: tuple[int, ...], groups: int) -> None:
    rng = np.random.default_rng(list(shape))
    values = rng.standard_normal(shape).astype(np.float16)
    x, w, b = (ktpu.tensor(v) for v in (values, *rng.standard_normal((2, shape[-1]))))
    ours = ktpu.group_norm(x, groups, w, b, channels_last=True)
    first = np.ascontiguousarray(np.moveaxis(values, -1, 1))
    wanted = ktpu.group_norm(ktpu.tensor(first), groups, w, b)
    assert ours.shape == shape
    oracle.assert_same_bits(ours.numpy(), np.moveaxis(wanted.numpy(), 1, -1))


def test_channels_last_refusals() -> None:
    one = ktpu.zeros((4,))
    with pytest.raises(CallError, match=r"x has shape \(2, 3, 6\).*\n[^!]*channels_last=True"):
        ktpu.group_norm(ktpu.zeros((2, 3, 6)), 2, one, one, channels_last=True)
    with pytest.raises(CallError, match="4 channels do not fall into 3 groups"):
        ktpu.group_norm(ktpu.zeros((2, 3, 4)), 3, one, one, channels_last=True)
