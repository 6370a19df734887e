"""Arrays of others in, by ``__array__`` and DLPack, and tensors out to them."""

from typing import Any, cast

import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from tests.kernels.oracle import assert_same_bits

pytestmark = pytest.mark.golden

DTYPES = ["?", "i1", "u1", "<i2", ">i2", "<u4", ">u4", "<i8", ">u8", "<f2", ">f2", "<f4", ">f4",
          "<f8", ">f8"]  # fmt: skip
LAYOUTS: dict[str, Any] = {
    "as it is": lambda a: a,
    "turned": lambda a: a.T,
    "every other": lambda a: a[::-1, ::2],
    "repeated": lambda a: np.broadcast_to(a[:, None, :1], (3, 2, 5)),
    "one": lambda a: np.asarray(a[1, 2]),
    "nothing": lambda a: a[:, 3:3],
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), a.dtype, a.size, 1).reshape(a.shape),
}


class Arrayish:
    """Something that numpy can only ask."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values


class Exporter:
    """Something that speaks DLPack alone, the versioned one as numpy does."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_in(dtype: str, layout: str) -> None:
    numbers = np.random.default_rng(0).integers(0, 2 if dtype == "?" else 100, (3, 7))
    array = LAYOUTS[layout](numbers.astype(dtype))
    expected = np.asarray(array).astype(np.float16)
    read_only = np.asarray(array).view()
    read_only.flags.writeable = False
    for source in (
        array,
        read_only,
        Arrayish(array),
        Arrayish(read_only),
        memoryview(cast("Any", read_only)),
    ):
        if isinstance(source, memoryview) and np.dtype(dtype).byteorder == ">":
            continue  # a memoryview of foreign byte order has no elements to read
        assert_same_bits(ktpu.tensor(source).numpy(), expected)
    if np.dtype(dtype).isnative and layout != "unaligned":
        assert_same_bits(ktpu.tensor(Exporter(np.asarray(array))).numpy(), expected)
        assert_same_bits(ktpu.tensor(Exporter(read_only)).numpy(), expected)
        assert_same_bits(ktpu.tensor(np.from_dlpack(Exporter(read_only))).numpy(), expected)


@pytest.mark.parametrize("dtype", ["<i4", ">i4", "<u8", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("wrap", [lambda a: a, Arrayish])
def test_range_is_lost_on_request_only(dtype: str, wrap: Any) -> None:
    array = np.asarray([[1, 65519], [65520, 7]]).astype(dtype)
    with pytest.raises(CallError, match=r"65520(\.0)? at index \(1, 0\) is beyond FP16"):
        ktpu.tensor(wrap(array))
    assert ktpu.tensor(wrap(array), dtype="fp16").numpy().tolist() == [[1, 65504], [np.inf, 7]]
    assert ktpu.tensor(wrap(array), dtype="fp32").numpy().tolist() == [[1, 65519], [65520, 7]]


@pytest.mark.parametrize("stored", ["fp16", "fp32"])
def test_tensors_out(stored: str) -> None:
    array = np.random.default_rng(1).normal(size=(4, 9)).astype("f2" if stored == "fp16" else "f4")
    x = ktpu.tensor(array, dtype=stored)
    for view in (
        lambda a: a,
        lambda a: a.T,
        lambda a: a[1, 2],
        lambda a: a[:, 2:2],
        lambda a: a[2],
    ):
        tensor, expected = view(x), np.asarray(view(array))
        for out in (np.asarray(tensor), np.array(tensor), np.from_dlpack(tensor)):
            assert_same_bits(out, expected)
            assert out.dtype == array.dtype
        wide = np.asarray(tensor, dtype=np.float64)
        assert wide.dtype == np.float64
        assert np.array_equal(wide, expected)


def test_a_result_out_is_computed_and_a_copy() -> None:
    x = ktpu.tensor([1.0, 2.0])
    out = np.from_dlpack(x + 1)
    assert out.tolist() == [2.0, 3.0]
    out[:] = 0
    assert x.numpy().tolist() == [1.0, 2.0]


def test_what_cannot_be_had() -> None:
    x = ktpu.tensor([1.0])
    with pytest.raises(ValueError, match="without a copy"):
        np.array(x, copy=False)
    with pytest.raises(BufferError, match="without a copy"):
        np.from_dlpack(x, copy=False)
    with pytest.raises(BufferError, match=r"not to device \(2, 0\)"):
        x.__dlpack__(dl_device=(2, 0))
    assert x.__dlpack_device__() == (1, 0)
    for wrong in (np.ones(2, complex), np.array(["a"]), object(), Exporter(np.ones(2, complex)),
                  Arrayish(np.array([object()])), {1: 2}, [[1], [2, 3]]):  # fmt: skip
        with pytest.raises(CallError) as caught:
            ktpu.tensor(wrong)
        assert "fix: " in str(caught.value)


def test_torch() -> None:
    torch: Any = pytest.importorskip("torch")
    values = torch.arange(12).reshape(3, 4).float()
    for source in (values, values.T, values[:, ::2], values.bool(), values.double(), values.half()):
        assert_same_bits(ktpu.tensor(source).numpy(), source.numpy().astype(np.float16))
    back = torch.from_dlpack(ktpu.tensor(values) * 2)
    assert back.dtype == torch.float16
    assert torch.equal(back, (values * 2).half())
    with pytest.raises(CallError, match="requires grad"):
        ktpu.tensor(values.requires_grad_())
