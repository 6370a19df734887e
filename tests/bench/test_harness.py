import json
from pathlib import Path

import numpy as np
import pytest

from bench import __main__ as command
from bench import compilation, harness
from kohakutpu import kernels


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> None:
    two = {
        "one": harness.Benchmark("one", "x", lambda: {"ratio": 2.0, "seconds": 0.25}, {"ratio": 2}),
        "two": harness.Benchmark("two", "y", lambda: {"ratio": 2.5}, {"ratio": 2}),
    }
    monkeypatch.setattr(command, "BENCHMARKS", two)
    monkeypatch.setattr(command, "measure_apart", lambda name: two[name].measure())


def test_compare_alternates_and_keeps_the_best() -> None:
    log: list[str] = []
    now = 0.0
    costs = {"ours": iter([9.0, 6.0, 4.0, 5.0]), "reference": iter([9.0, 2.0, 3.0, 1.0])}

    def call(name: str) -> None:
        nonlocal now
        log.append(name)
        now += next(costs[name])

    figures = harness.compare(
        lambda: call("ours"), lambda: call("reference"), repeats=3, clock=lambda: now
    )
    assert log == ["ours", "reference"] * 4  # the first pair is not timed
    assert figures == {"seconds": 4.0, "reference_seconds": 1.0, "ratio": 4.0}


def test_peak_grows_with_what_is_touched() -> None:
    before = harness.peak_rss_mib()
    touched = np.ones(64 << 20, np.uint8)
    assert harness.peak_rss_mib() >= before
    assert harness.peak_rss_mib() >= touched.nbytes / 2**20


@pytest.mark.usefixtures("sample")
def test_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert command.main(["--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("<= 2: met") == printed.count("<= 2: MISSED") == 1
    written = json.loads(file.read_text())
    assert [entry["name"] for entry in written["results"]] == ["one", "two"]
    assert written["results"][0]["figures"] == {"ratio": 2.0, "seconds": 0.25}
    assert written["results"][0]["bounds"] == {"ratio": 2}
    assert {"cpu", "cores", "numpy", "blas", "OPENBLAS_CORETYPE"} <= set(written["machine"])


@pytest.mark.usefixtures("sample")
def test_an_unknown_name_lists_the_known(sample: None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main(["three"])
    assert stopped.value.code == 2
    assert "no benchmark three; there are one, two" in capsys.readouterr().err


def test_every_kernel_of_the_library_is_compiled() -> None:
    assert set(compilation.SHAPES) == set(kernels.__all__)


@pytest.mark.golden
@pytest.mark.parametrize("name", ["compile", "program_length"])
def test_what_needs_no_quiet_machine_is_measured(name: str) -> None:
    item = command.BENCHMARKS[name]
    figures = item.measure()
    assert set(item.bounds) <= set(figures)
    assert all(value > 0 for value in figures.values())
    if name == "program_length":  # no matter how busy the machine is
        assert figures["ratio"] <= 2


def test_the_promised_benchmarks_exist() -> None:
    bounds = {name: item.bounds.get("ratio") for name, item in command.BENCHMARKS.items()}
    assert bounds == {
        "matmul_1024": 14,
        "silu_1024": 12,
        "softmax_1024": 12,
        "attention_8x512x64": 25,
        "compile": None,
        "program_length": 2,
        "memory_matmul_2048": None,
    } | {
        f"rtl_{machine}_{name}": None
        for machine in ("small", "duo")
        for name in (
            "matmul_256",
            "matmul_256x1024x256",
            "matmul_512",
            "linear_silu_256",
            "softmax_1024",
        )
    }
