# pyright: reportUnusedExpression=false, reportOperatorIssue=false
import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from tests.kernels import oracle

pytestmark = pytest.mark.golden


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def expected(a: np.ndarray, b: np.ndarray, precision: str = "default") -> np.ndarray:
    """Loop over batches; only two axes are left for the oracle."""
    x = a[None] if a.ndim == 1 else a
    y = b[None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = np.broadcast_to(x, (*batch, *x.shape[-2:]))
    y = np.broadcast_to(y, (*batch, *y.shape[-2:]))
    result = np.empty((*batch, x.shape[-2], y.shape[-2]), np.float16)
    for index in np.ndindex(*batch):
        result[index] = oracle.matmul(x[index], y[index], precision)
    if b.ndim == 1:
        result = result[..., 0]
    if a.ndim == 1:
        result = result[..., 0, :] if b.ndim > 1 else result[..., 0]
    return result


SHAPES = [
    ((4, 32), (4, 32)), ((3, 5), (7, 5)), ((1, 1), (1, 1)), ((17, 100), (33, 100)),
    ((5,), (5,)), ((3, 5), (5,)), ((5,), (7, 5)),
    ((2, 3, 5), (7, 5)), ((2, 3, 5), (5,)), ((5,), (2, 7, 5)), ((3, 5), (2, 7, 5)),
    ((2, 3, 5), (2, 7, 5)), ((2, 1, 3, 5), (4, 7, 5)), ((1, 3, 5), (2, 7, 5)),
    ((2, 2, 3, 33), (2, 2, 6, 33)), ((2, 3, 4, 5), (7, 5)), ((2, 1, 3, 5), (1, 2, 7, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_shapes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = normal(*left), normal(*right, seed=1)
    result = ktpu.tensor(a) @ ktpu.tensor(b)
    want = expected(a, b)
    assert result.shape == want.shape
    oracle.assert_same_bits(result.numpy(), want)


@pytest.mark.parametrize(
    ("left", "right", "shape"),
    [
        ((0, 5), (7, 5), (0, 7)),
        ((3, 5), (0, 5), (3, 0)),
        ((3, 0), (7, 0), (3, 7)),
        ((0,), (0,), ()),
        ((0, 3, 5), (7, 5), (0, 3, 7)),
        ((2, 3, 0), (2, 7, 0), (2, 3, 7)),
    ],
)
def test_without_elements(
    left: tuple[int, ...], right: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    result = (ktpu.zeros(left) @ ktpu.zeros(right)).numpy()
    assert result.shape == shape
    assert not result.any()


@pytest.mark.parametrize(("left", "right"), [SHAPES[3], SHAPES[5], SHAPES[11]], ids=str)
def test_high_precision(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = normal(*left), normal(*right, seed=1)
    result = ktpu.matmul(ktpu.tensor(a), ktpu.tensor(b), precision="high").numpy()
    if len(right) > 1:
        oracle.assert_same_bits(result, expected(a, b, "high"))
    exact = np.einsum("...mk,...nk->...mn", a.astype(float), np.atleast_2d(b).astype(float))
    oracle.assert_close(result, exact.reshape(result.shape), 2, 2e-3)


def test_refusals() -> None:
    x = ktpu.zeros((3, 5))
    with pytest.raises(CallError, match=r"5 of \(3, 5\) is not 3 of \(5, 3\)") as caught:
        x @ ktpu.zeros((5, 3))
    assert "transpose w" in str(caught.value)
    with pytest.raises(CallError, match=r"5 of \(3, 5\) is not 4 of \(4,\)"):
        x @ ktpu.zeros(4)
    with pytest.raises(CallError, match="without axes"):
        x @ ktpu.zeros(())
    with pytest.raises(CallError, match=r"the batch axes \(2,\) of \(2, 3, 5\) and \(3,\)"):
        ktpu.zeros((2, 3, 5)) @ ktpu.zeros((3, 7, 5))
    with pytest.raises(CallError, match="precision is 'exact'"):
        ktpu.matmul(x, x, precision="exact")
    with ktpu.device("golden", machine="duo"):
        other = ktpu.zeros((3, 5))
    with pytest.raises(CallError, match="two devices") as caught:
        x @ other
    assert "machine='small'" in str(caught.value)
    assert "machine='duo'" in str(caught.value)
