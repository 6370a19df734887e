"""Numbers that are likely to leave FP16 are warned of, with the line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from compiler.pipeline import ArgSpec, compile_kernel
from kohakuaccel.lang import dims, grid
from kohakutpu import kernels
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import Kernel, kernel

pytestmark = pytest.mark.unit

M, N = dims("M, N")
SMALL = preset("small")


def made(body: Callable[..., Any], dtype: str = "fp16", width: Any = N) -> Kernel:
    @kernel
    def probe(x=L.In(M, N), y=L.Out(M, width, dtype=dtype)):
        for r in grid(x.rows(4)):
            y[r] <<= body(x[r])

    return probe


def hazards(probe: Kernel) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compile_kernel(probe, [ArgSpec((8, 40))], {}, SMALL)
    return caught


def squares(x: Any) -> Any:
    return L.row_sum(x * x)  # HERE squares


@pytest.mark.parametrize(
    ("body", "width", "text", "line"),
    [
        (squares, 1, "divide before squaring", "HERE squares"),
        (lambda x: L.maximum(x, -60000.0), N, "maximum against the sentinel -60000", "-60000.0)"),
        (lambda x: L.minimum(x, 1e30), N, "minimum against the sentinel 1e+30", "1e30)"),
        (lambda x: x * 1e6, N, "1e+06 times what is stored as FP16 into `y`", "x * 1e6"),
    ],
)
def test_a_hazard_names_its_line(body: Any, width: Any, text: str, line: str) -> None:
    (warning,) = hazards(made(body, width=width))
    assert warning.category is L.NumericHazard
    assert text in str(warning.message)
    assert warning.filename == __file__
    with open(__file__) as source:
        assert line in source.read().splitlines()[warning.lineno - 1]


@pytest.mark.parametrize(
    ("body", "dtype", "width"),
    [
        (squares, "fp32", 1),
        (lambda x: L.row_sum((x * (1 / N)) * x), "fp16", 1),
        (lambda x: L.maximum(x, float("-inf")), "fp16", N),
        (lambda x: L.clamp(x, -65504.0, 65504.0), "fp16", N),
        (lambda x: L.maximum(x, 0.0) * 3, "fp16", N),
        (lambda x: x * 1e6, "fp32", N),
    ],
)
def test_no_hazard(body: Any, dtype: str, width: Any) -> None:
    assert not hazards(made(body, dtype, width))


def test_the_library_has_none() -> None:
    probes = [getattr(kernels, name) for name in kernels.__all__]
    for probe in (p for p in probes if isinstance(p, Kernel) and len(p.ins) == 1):
        buffer = probe.ins[0]
        shape = (4, 64) if buffer.any_rank else (64,) * len(buffer.shape)
        with warnings.catch_warnings():
            warnings.simplefilter("error", L.NumericHazard)
            compile_kernel(probe, [ArgSpec(shape, buffer.dtype)], {}, SMALL)
