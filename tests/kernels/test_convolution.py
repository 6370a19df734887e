"""Convolution: equal bits to a direct statement, no copy of the input, refusals."""

from typing import Any

import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from tests.kernels import oracle
from tests.kernels.statements import ACTIVATIONS, Array, half, wide

pytestmark = pytest.mark.golden

# Images, filters, stride, padding.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], Any, Any]] = [
    ((1, 1, 1), (1, 1, 1, 1), 1, 0),
    ((2, 6, 5, 20), (7, 1, 1, 20), 1, 0),
    ((2, 6, 5, 20), (7, 1, 1, 20), 2, 0),
    ((2, 5, 7, 3), (6, 3, 3, 3), 1, 1),
    ((2, 5, 7, 16), (6, 3, 3, 16), 1, 0),
    ((2, 9, 9, 32), (20, 3, 3, 32), 2, 1),
    ((3, 4, 4, 5), (2, 3, 1, 5), 1, (1, 0)),
    ((1, 8, 9, 33), (5, 2, 3, 33), (1, 2), (0, 2)),
    ((1, 12, 12, 3), (8, 7, 7, 3), 2, 3),
    ((2, 1, 2, 3, 3, 4), (3, 3, 3, 4), 1, 1),
    ((1, 1, 40, 16), (9, 1, 5, 16), 3, 0),
]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def both(value: Any) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def taps(x: Array, w: Array, stride: Any, padding: Any) -> list[tuple[Array, Array]]:
    """Rows and filters of each contraction: patches of the images, for each row of the filter."""
    (down, along), (above, left) = both(stride), both(padding)
    x = x.reshape(-1, *x.shape[-3:])
    outputs, kh, kw, channels = w.shape
    spare = -channels % 16 if kw > 1 else 0
    x = np.pad(x, ((0, 0), (above, above), (left, left), (0, spare)))
    w = np.pad(w, ((0, 0), (0, 0), (0, 0), (0, spare)))
    patches = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), axis=(1, 2))
    patches = patches[:, ::down, ::along].transpose(0, 1, 2, 4, 5, 3)  # n, h, w, kh, kw, c
    depth = kw * (channels + spare)
    return [
        (patches[:, :, :, row].reshape(-1, depth), w[:, row].reshape(outputs, depth))
        for row in range(kh)
    ]


def stated(x: Array, w: Array, stride: Any, padding: Any, precision: str = "default") -> Array:
    pairs = taps(x, w, stride, padding)
    acc = np.zeros((len(pairs[0][0]), len(w)), np.float32)
    lead = [tuple(oracle.quantise(v.astype(float)) for v in pair) for pair in pairs]
    for a, b in lead:
        acc = oracle.sweep(acc, a, b)
    if precision == "high":
        rest = [
            tuple(
                oracle.quantise(v.astype(float) - oracle.dequantise(*term, v.shape[1]))
                for v, term in zip(pair, terms, strict=True)
            )
            for pair, terms in zip(pairs, lead, strict=True)
        ]
        for (a, _), (_, b) in zip(lead, rest, strict=True):
            acc = oracle.sweep(acc, a, b)
        for (a, _), (_, b) in zip(rest, lead, strict=True):
            acc = oracle.sweep(acc, a, b)
    return half(acc)


def exact(x: Array, w: Array, stride: Any, padding: Any) -> Array:
    products = [a.astype(float) @ b.astype(float).T for a, b in taps(x, w, stride, padding)]
    return np.sum(products, axis=0)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("machine", ["tiny", "small", "duo"])
def test_shapes(case: tuple[Any, ...], machine: str) -> None:
    image, filters, stride, padding = case
    x, w = normal(*image), normal(*filters, seed=1)
    with ktpu.device("golden", machine=machine, poison=True):
        y = ktpu.conv2d(ktpu.tensor(x), ktpu.tensor(w), stride=stride, padding=padding)
    (down, along), (above, left) = both(stride), both(padding)
    rows = (image[-3] + 2 * above - filters[1]) // down + 1
    columns = (image[-2] + 2 * left - filters[2]) // along + 1
    assert y.shape == (*image[:-3], rows, columns, filters[0])
    ours = y.numpy().reshape(-1, filters[0])
    oracle.assert_same_bits(ours, stated(x, w, stride, padding))


def test_against_torch() -> None:
    torch: Any = pytest.importorskip("torch")
    x, w = normal(2, 9, 10, 24), normal(11, 3, 3, 24, seed=1)
    ours = ktpu.conv2d(ktpu.tensor(x), ktpu.tensor(w), stride=2, padding=1).numpy()
    nchw, ochw = (torch.tensor(v.astype(np.float64)).permute(0, 3, 1, 2) for v in (x, w))
    want = torch.nn.functional.conv2d(nchw, ochw, stride=2, padding=1).permute(0, 2, 3, 1).numpy()
    assert np.sqrt(np.mean((ours - want) ** 2) / np.mean(want**2)) <= 1.3e-2


@pytest.mark.parametrize(("precision", "bound"), [("default", 1.3e-2), ("high", 3e-4)])
def test_precision(precision: str, bound: float) -> None:
    x, w = normal(2, 10, 10, 32), normal(16, 3, 3, 32, seed=1)
    y = ktpu.conv2d(ktpu.tensor(x), ktpu.tensor(w), padding=1, precision=precision).numpy()
    oracle.assert_same_bits(y.reshape(-1, 16), stated(x, w, 1, 1, precision))
    want = exact(x, w, 1, 1).reshape(y.shape)
    assert np.sqrt(np.mean((y - want) ** 2) / np.mean(want**2)) <= bound


@pytest.mark.parametrize("activation", ["none", "silu", "relu"])
def test_bias_and_activation(activation: str) -> None:
    x, w, bias = normal(2, 6, 6, 16), normal(9, 3, 3, 16, seed=1), normal(9, seed=2)
    tensors = (ktpu.tensor(v) for v in (x, w, bias))
    ours = ktpu.conv2d(*tensors, padding=1, activation=activation).numpy()
    want = ACTIVATIONS[activation](wide(stated(x, w, 1, 1)) + wide(bias))
    oracle.assert_same_bits(ours.reshape(-1, 9), half(want))


def test_a_nan_reaches_the_outputs_around_it_alone() -> None:
    x, w = normal(1, 8, 8, 16), normal(4, 3, 3, 16, seed=1)
    x[0, 4, 5, 3] = np.nan
    ours = ktpu.conv2d(ktpu.tensor(x), ktpu.tensor(w), padding=1).numpy()
    touched = np.asarray(np.isnan(ours[0]).any(axis=-1))
    # One block of 32 holds two pixels of 16 channels, so a neighbour along the row is lost too.
    assert touched[3:6, 4:7].all()
    assert not touched[:3].any()
    assert not touched[6:].any()


def test_nothing_is_copied_where_pixels_are_whole_words(hostile: ktpu.Session) -> None:
    x, w = ktpu.tensor(normal(2, 12, 12, 32)), ktpu.tensor(normal(16, 3, 3, 32, seed=1))
    hostile.reset_stats()
    ktpu.conv2d(x, w)
    stats = hostile.stats()
    assert stats.dispatches == 1
    assert stats.memory_written == 2 * 10 * 10 * 1  # the result's words
    hostile.reset_stats()
    ktpu.conv2d(x, w, padding=1)
    around = 2 * 14 * 14 * 2  # a copy with zeros around: those, and then the images' words
    images = 2 * 12 * 12 * 2
    assert hostile.stats().memory_written == around + images + 2 * 12 * 12


def test_interleavings() -> None:
    x, w, bias = normal(1, 6, 6, 16), normal(9, 3, 3, 16, seed=1), normal(9, seed=2)

    def run(**options: Any) -> bytes:
        with ktpu.device("golden", poison=True, **options) as session:
            tensors = (ktpu.tensor(v) for v in (x, w, bias))
            found = ktpu.conv2d(*tensors, stride=2, padding=1, activation="relu").numpy()
            session.close()
            return found.tobytes()

    want = run(machine="small")
    assert all(run(machine="duo", seed=seed) == want for seed in range(20))


def test_nothing_to_compute() -> None:
    w = ktpu.tensor(normal(4, 3, 3, 8))
    assert ktpu.conv2d(ktpu.zeros((0, 5, 5, 8)), w).shape == (0, 3, 3, 4)
    assert ktpu.conv2d(ktpu.zeros((2, 5, 5, 8)), ktpu.zeros((0, 3, 3, 8))).shape == (2, 3, 3, 0)


@pytest.mark.parametrize(("shapes", "options", "message"), [
    (((5, 5, 8), (4, 3, 3, 7)), {}, r"have 8 channels, filters of shape \(4, 3, 3, 7\) have 7"),
    (((5, 8), (4, 3, 3, 8)), {}, r"not \(5, 8\) and \(4, 3, 3, 8\)"),
    (((5, 5, 0), (4, 3, 3, 0)), {}, "channels last"),
    (((2, 5, 8), (4, 3, 3, 8)), {}, "3 x 3 do not fit images of 2 x 5 with padding 0 x 0"),
    (((5, 5, 8), (4, 3, 3, 8), (3,)), {}, r"bias has shape \(3,\), and 4 outputs want \(4,\)"),
    (((5, 5, 8), (4, 3, 3, 8)), {"stride": 0}, "stride is 0"),
    (((5, 5, 8), (4, 3, 3, 8)), {"padding": (1, -1)}, r"padding is \(1, -1\)"),
    (((5, 5, 8), (4, 3, 3, 8)), {"padding": 0.5}, "padding is 0.5"),
])  # fmt: skip
def test_refusals(shapes: Any, options: dict[str, Any], message: str) -> None:
    tensors = (ktpu.zeros(shape) for shape in shapes)
    with pytest.raises(CallError, match=message) as caught:
        ktpu.conv2d(*tensors, **options)
    assert caught.value.loc is not None
    assert "conv2d(" in caught.value.loc.text


def test_formats() -> None:
    x, w = ktpu.tensor(np.zeros((5, 5, 8)), dtype="fp32"), ktpu.zeros((4, 3, 3, 8))
    with pytest.raises(CallError, match="tensors of FP16, not fp32 and fp16"):
        ktpu.conv2d(x, w, padding=1)
