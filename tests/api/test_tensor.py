import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kohakuaccel.errors import CallError, KernelError
from kohakuaccel.lang import grid
from kohakutpu import api as ktpu
from kohakutpu import lang as L
from kohakutpu.api.convert import pack, row_bytes, unpack
from kohakutpu.lang import kernel

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "shape", [(), (1,), (5,), (16,), (17,), (1, 1), (3, 5), (4, 16), (2, 3, 4), (2, 1, 3, 33), (0,),
              (0, 3), (3, 0), (2, 0, 5)]
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_round_trip(shape: tuple[int, ...], dtype: type) -> None:
    values = np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)
    t = ktpu.tensor(values, dtype=dtype)
    back = t.numpy()
    assert (back.dtype, back.shape) == (np.dtype(dtype), shape)
    assert np.array_equal(back, values)
    assert back.flags.writeable
    assert (t.shape, t.ndim, t.size, t.dtype) == (shape, len(shape), values.size, np.dtype(dtype))
    rows, _, stride = row_bytes(shape, t.format)
    assert t.nbytes == rows * stride
    assert t.nbytes % 32 == 0


def test_layout_by_hand() -> None:
    packed = bytes(pack(np.arange(1, 19, dtype=np.float16).reshape(2, 9), "fp16", 0xFF))
    row = np.arange(1, 10, dtype="<f2").tobytes()
    assert packed[:32] == row + b"\xff" * 14
    assert packed[32:50] == np.arange(10, 19, dtype="<f2").tobytes()
    assert len(packed) == 64
    assert unpack(packed, (2, 9), "fp16").tolist() == np.arange(1, 19).reshape(2, 9).tolist()
    assert len(pack(np.ones((3, 9), np.float32), "fp32")) == 3 * 64
    assert len(pack(np.array(1, np.float16), "fp16")) == 32


@given(hnp.arrays(np.float16, hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=20)))
def test_pack_and_unpack_are_inverse(values: np.ndarray) -> None:
    back = unpack(pack(values, "fp16", 0xFF), values.shape, "fp16")
    assert np.array_equal(back.view(np.uint16), values.view(np.uint16))


@pytest.mark.parametrize(
    "dtype",
    [bool, np.int8, np.uint8, np.int16, np.int64, np.uint64, np.float16, np.float32, np.float64,
     np.longdouble, ml_dtypes.bfloat16, ">f4", ">i2"],
)  # fmt: skip
def test_dtypes(dtype: Any) -> None:
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    assert ktpu.tensor(values).numpy().tolist() == [[0, 1, 1], [1, 0, 1]]
    assert ktpu.tensor(values).dtype == np.float16


def test_things_that_are_arrays() -> None:
    class Arrayish:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array([1.0, 2.0])

    class Capsule:
        """DLPack alone, as a framework's tensor in host memory."""

        def __init__(self) -> None:
            self.values = np.array([3.0, 4.0], np.float32)

        def __dlpack__(self, **options: Any) -> Any:
            return self.values.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.values.__dlpack_device__()

    assert ktpu.tensor(Arrayish()).numpy().tolist() == [1, 2]
    assert ktpu.tensor(Capsule()).numpy().tolist() == [3, 4]
    assert ktpu.tensor([[1, 2], [3, 4]]).shape == (2, 2)
    assert ktpu.tensor(7).numpy() == 7
    assert ktpu.tensor(np.float64(0.5)).shape == ()
    assert ktpu.tensor(range(3)).numpy().tolist() == [0, 1, 2]


def test_any_strides() -> None:
    base = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    for view in (base.T, base[::-1, ::2], base[:, 1:3, ::-2], np.broadcast_to(base[0], (2, 4, 5)),
                 np.asfortranarray(base), np.swapaxes(base, 0, 1)):  # fmt: skip
        assert np.array_equal(ktpu.tensor(view).numpy(), view)


def test_rounding_is_to_nearest_even_from_the_widest_type() -> None:
    values = np.array([1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-40, 2049.0, 1e-9, 65519.99])
    expected = [1.0, 1 + 2**-9, 1 + 2**-10, 2048.0, 0.0, 65504.0]
    assert ktpu.tensor(values).numpy().tolist() == expected


def test_values_out_of_range() -> None:
    values = np.zeros((2, 3, 4))
    values[1, 0, 2], values[1, 2, 3] = -65520.0, 1e30
    with pytest.raises(CallError) as caught:
        ktpu.tensor(values)
    text = str(caught.value)
    assert "-65520.0 at index (1, 0, 2) is beyond FP16" in text
    assert "2 of 24 values" in text
    assert "ktpu.tensor(values)" in text  # the line
    assert "dtype='fp16'" in text
    for explicit in ("fp16", np.float16, np.dtype("float16"), "float16"):
        back = ktpu.tensor(values, dtype=explicit).numpy()
        assert back[1, 0, 2] == -np.inf
        assert back[1, 2, 3] == np.inf
    assert ktpu.tensor(values, dtype="fp32").numpy()[1, 2, 3] == np.float32(1e30)
    with pytest.raises(CallError, match="70000 is beyond FP16"):
        ktpu.tensor(70000)
    with pytest.raises(CallError, match="70000 at index"):
        ktpu.tensor([[1], [70000]])
    kept = ktpu.tensor([np.inf, -np.inf, np.nan]).numpy()
    assert kept[0] == np.inf
    assert kept[1] == -np.inf
    assert np.isnan(kept[2])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([1j]), "complex128"),
        (np.array(["a"]), "<U1"),
        ("text", "<U4"),
        (np.array([object()]), "Python objects"),
        (None, "Python objects"),
        ({"a": 1}, "Python objects"),
        (np.array(["2020-01-01"], "datetime64[D]"), "datetime64"),
        (np.zeros(2, [("a", "f4")]), "a"),
        ([[1, 2], [3]], "list"),
        (b"ab", "S2"),
    ],
)
def test_what_is_no_real_array(value: Any, message: str) -> None:
    with pytest.raises(CallError, match=message):
        ktpu.tensor(value)


@pytest.mark.parametrize("dtype", ["int8", np.float64, "fp8", complex, object()])
def test_formats_the_memory_does_not_have(dtype: Any) -> None:
    with pytest.raises(CallError, match="cannot be stored as"):
        ktpu.tensor([1.0], dtype=dtype)


def test_a_tensor_of_a_tensor() -> None:
    t = ktpu.tensor([1.0, 2.0])
    assert ktpu.tensor(t) is t
    assert ktpu.tensor(t, dtype="fp16") is t
    wide = ktpu.tensor(t, dtype="fp32")
    assert wide.dtype == np.float32
    assert ktpu.tensor(wide) is wide
    with ktpu.device("golden", machine="duo"):
        moved = ktpu.tensor(t)
    assert moved.device is not t.device
    assert moved.numpy().tolist() == [1, 2]


def test_zeros_and_full() -> None:
    assert ktpu.zeros((2, 3)).numpy().tolist() == [[0] * 3] * 2
    assert ktpu.zeros(4).shape == (4,)
    assert ktpu.zeros(()).numpy() == 0
    assert ktpu.full((2, 2), 1.5).numpy().tolist() == [[1.5, 1.5]] * 2
    assert ktpu.full(np.int64(3), True).numpy().tolist() == [1, 1, 1]
    assert ktpu.full((0, 2), 1).shape == (0, 2)
    assert ktpu.full(2, 1e30, dtype="fp32").numpy()[0] == np.float32(1e30)
    for shape in ((-1,), (1.5,), "ab", ((1, 2), 3), None):
        with pytest.raises(CallError, match="a shape is"):
            ktpu.zeros(shape)  # pyright: ignore[reportArgumentType]
    for shape in (10**20, (10**10, 10**10), (0, 10**20)):
        with pytest.raises(CallError, match="more elements than any memory"):
            ktpu.zeros(shape)
    with pytest.raises(CallError, match="beyond FP16"):
        ktpu.full(3, 1e5)
    with pytest.raises(CallError, match="repeats one number"):
        ktpu.full(3, [1, 2])  # pyright: ignore[reportArgumentType]


def test_description_without_data(monkeypatch: pytest.MonkeyPatch, hostile: ktpu.Session) -> None:
    t = ktpu.tensor(np.ones((3, 4)))

    def no(*_: Any) -> None:
        raise AssertionError("data crossed")

    monkeypatch.setattr(hostile.runtime, "read", no)
    assert repr(t) == (
        "tensor(shape=(3, 4), dtype=float16, device('golden', machine='small', poison=True))"
    )
    assert len(t) == 3
    with pytest.raises(CallError, match="without axes"):
        len(ktpu.tensor(1))
    with pytest.raises(CallError, match="truth"):
        bool(t)


def test_numpy_takes_a_tensor() -> None:
    t = ktpu.tensor([[1.0, 2.0]])
    assert np.asarray(t).dtype == np.float16
    assert np.asarray(t, np.float64).tolist() == [[1, 2]]
    assert np.array(t).tolist() == [[1, 2]]
    assert np.stack([t, t]).shape == (2, 1, 2)
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(t, copy=False)


@pytest.mark.parametrize("shape", [(3, 2), (2, 2, 5)])
def test_views_share_memory(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    t = ktpu.tensor(values)
    merged = t.view((t.size // shape[-1], shape[-1]))
    assert merged.storage is t.storage
    assert np.array_equal(merged.numpy(), values.reshape(merged.shape))
    assert t.view(shape) is t


def test_fp32_is_for_kernels_that_declare_it() -> None:
    wide = ktpu.tensor([1.0, 2.0], dtype="fp32")
    single = ktpu.tensor(1.0, dtype="fp32")
    calls = (lambda: wide + 1, lambda: single + 1, lambda: wide @ wide, wide.softmax, single.relu)
    for call in calls:
        with pytest.raises(CallError, match="declared fp16, but the argument holds fp32"):
            call()


def test_a_refused_kernel_shows_the_kernel_and_the_call() -> None:
    @kernel
    def half(x=L.In(...), y=L.Out(...)):
        for e in grid(1):
            y[e] <<= x[e]

    with pytest.raises(KernelError) as caught:
        half(ktpu.tensor([1.0]))
    text = str(caught.value)
    assert "grid(1)" in text or "y[e] <<= x[e]" in text
    assert "note: `half` is called here\n    half(ktpu.tensor([1.0]))" in text


@given(st.sampled_from([">f2", ">f4", ">f8", "<f8"]))
def test_byte_order(dtype: str) -> None:
    with ktpu.device("golden", machine="small", poison=True):
        assert ktpu.tensor(np.array([1.5, -2.0], dtype)).numpy().tolist() == [1.5, -2.0]


def test_nothing_is_computed_on_import() -> None:
    # The default device opens with the first tensor, so choosing another one costs nothing.
    program = (
        "from kohakutpu import api\n"
        "from kohakutpu.api.session import _Current\n"
        "assert _Current.session is None and not _Current.opened\n"
        "assert api.device().machine.name == 'tiny'\n"
    )
    environment = os.environ | {"KTPU_MACHINE": "tiny"}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env=environment)
