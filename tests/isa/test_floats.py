"""FP32 as text: the shortest decimal that gives the bits back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohakutpu.isa.floats import read_fp32, write_fp32


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x00000000, "0.0"),
        (0x80000000, "-0.0"),
        (0x3F800000, "1.0"),
        (0x3DCCCCCD, "0.1"),
        (0x3EAAAAAB, "0.33333334"),
        (0x00000001, "1e-45"),
        (0x00800000, "1.1754944e-38"),
        (0x7F7FFFFF, "3.4028235e+38"),
        (0x7F800000, "inf"),
        (0xFF800000, "-inf"),
        (0x7FC00000, "nan"),
        (0xFFC00000, "0fFFC00000"),
        (0x7F800001, "0f7F800001"),
    ],
)
def test_pinned(bits: int, text: str) -> None:
    assert write_fp32(bits) == text
    assert read_fp32(text) == bits


@given(bits=st.integers(0, 0xFFFFFFFF))
def test_there_and_back(bits: int) -> None:
    assert read_fp32(write_fp32(bits)) == bits


@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_as_short_as_numpy(value: float) -> None:
    number = np.float32(value)
    text = write_fp32(int(number.view(np.uint32)))
    assert np.float32(text).view(np.uint32) == number.view(np.uint32)

    def digits(written: str) -> int:
        return len(written.split("e")[0].replace("-", "").replace(".", "").strip("0"))

    assert digits(text) <= digits(np.format_float_scientific(number))


@pytest.mark.parametrize(
    ("text", "bits"),
    [("1", 0x3F800000), (".5", 0x3F000000), ("+2.", 0x40000000), ("1E2", 0x42C80000)],
)
def test_other_spellings(text: str, bits: int) -> None:
    assert read_fp32(text) == bits


@pytest.mark.parametrize(
    "text", ["", "-nan", "NaN", "Inf", "1_0", " 1", "1e39", "-1e400", "0f7fc0"]
)
def test_what_is_no_number(text: str) -> None:
    assert read_fp32(text) is None
