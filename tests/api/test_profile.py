"""Profiles agree with the counters, timelines with the engines, pictures with the figures."""

import json
import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from kohakutpu import kernels
from kohakutpu.api.roofline import HEIGHT, LEFT, TOP, WIDTH, Axes, Point, picture

pytestmark = pytest.mark.golden
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def duo() -> Iterator[ktpu.Session]:
    with ktpu.device("golden", machine="duo") as device:
        yield device


def work() -> None:
    x, w = ktpu.tensor(np.ones((40, 70))), ktpu.tensor(np.ones((24, 70)))
    y = (x @ w).silu()
    y.softmax()
    (y + 1).numpy()


def test_a_profile_counts_what_the_device_counts() -> None:
    before = ktpu.zeros((3, 3)) + 1  # waits, and is no part of the profile
    ktpu.reset_stats()
    with ktpu.profile() as seen:
        work()
        after = ktpu.zeros((3, 3)) * 2  # waits, and is
    stats = ktpu.stats()
    assert [d.kernel for d in seen.dispatches][:2] == ["linear_silu", "softmax"]
    assert len(seen.dispatches) == stats.dispatches == 4
    shares = seen.shares()
    assert sum(share.runs for share in shares) == 4
    assert sum(share.cycles for share in shares) == seen.cycles == stats.cycles
    assert sum(share.macs for share in shares) == stats.macs > 0
    assert sum(share.words for share in shares) == stats.memory_read + stats.memory_written
    assert [share.cycles for share in shares] == sorted((s.cycles for s in shares), reverse=True)
    work()
    assert len(seen.dispatches) == 4
    assert (before.numpy() + after.numpy() == 1).all()


def test_the_table() -> None:
    with ktpu.profile() as seen:
        work()
    lines = str(seen).splitlines()
    assert lines[0].split()[:3] == ["kernel", "runs", "cycles"]
    share = next(share for share in seen.shares() if share.kernel == "linear_silu")
    row = next(line for line in lines if line.startswith("linear_silu")).split()
    assert row[1:3] == ["1", f"{share.cycles:,}"]
    assert row[4] == f"{share.macs / share.cycles:.1f}"
    assert row[5] == f"{100 * share.macs / share.cycles / 1024:.0f}%"  # duo has 2 x 512
    assert lines[-1] == f"golden, machine duo: 3 runs, {seen.cycles:,} cycles"


def test_an_engine_is_busy_as_often_as_it_counted() -> None:
    with ktpu.profile() as seen:
        kernels.softmax(ktpu.tensor(np.ones((64, 100))))
    (share,), (dispatch,) = seen.shares(), seen.dispatches
    engines = [e for u in dispatch.report.units for n, e in u.engines.items() if n == share.busiest]
    assert share.busiest == "EXEC"
    assert share.busy == sum(e.busy for e in engines) / len(engines) / share.cycles
    assert 0.2 < share.busy <= 1


def test_a_failure_ends_a_profile(duo: ktpu.Session) -> None:
    with pytest.raises(CallError), ktpu.profile():
        kernels.softmax(ktpu.zeros((3,)))
    assert not duo.runtime.watchers
    assert not duo.runtime.device.timeline  # pyright: ignore


def test_profiles_nest(duo: ktpu.Session) -> None:
    with ktpu.profile() as outer:
        work()
        with ktpu.profile() as inner:
            work()
        work()
    assert (len(outer.dispatches), len(inner.dispatches)) == (9, 3)
    assert all(d.report.timeline for d in outer.dispatches)
    assert not duo.runtime.device.timeline  # pyright: ignore


# ------------------------------------------------------------------ timelines


def slices(path: Path) -> tuple[dict[tuple[int, int], str], list[dict[str, Any]]]:
    """Names of processes and threads, and the slices of a timeline."""
    content = json.loads(path.read_text())
    names: dict[tuple[int, int], str] = {}
    titles = {
        e["pid"]: e["args"]["name"] for e in content["traceEvents"] if e["name"] == "process_name"
    }
    for event in content["traceEvents"]:
        if event["name"] == "thread_name":
            thread = event["pid"], event["tid"]
            names[thread] = f"{titles[event['pid']]} {event['args']['name']}"
    assert {e["ph"] for e in content["traceEvents"]} == {"M", "X"}
    return names, [event for event in content["traceEvents"] if event["ph"] == "X"]


def test_a_timeline_shows_every_engine_as_busy_as_it_was(tmp_path: Path) -> None:
    with ktpu.profile() as seen:
        work()
    seen.timeline(tmp_path / "run.json")
    names, found = slices(tmp_path / "run.json")
    expected: Counter[str] = Counter()
    for dispatch in seen.dispatches:
        for unit in dispatch.report.units:
            kind = "cluster" if unit.kind == "C" else "vector core"
            for engine, counted in unit.engines.items():
                expected[f"{kind} {unit.kind}{unit.node} {engine}"] += counted.busy
        expected["kernels dispatches"] += dispatch.report.cycles
    busy: Counter[str] = Counter()
    for event in found:
        busy[names[event["pid"], event["tid"]]] += event["dur"]
    assert +busy == +expected
    for thread in names:
        own = sorted((e["ts"], e["dur"]) for e in found if (e["pid"], e["tid"]) == thread)
        assert all(start + length <= later for (start, length), (later, _) in pairwise(own))
        assert all(start + length <= seen.cycles for start, length in own)


def test_a_slice_names_its_line(tmp_path: Path) -> None:
    with ktpu.profile() as seen:
        work()
    seen.timeline(tmp_path / "run.json")
    _, found = slices(tmp_path / "run.json")
    sweeps = {e["args"]["statement"] for e in found if e["name"] == "GEMM"}
    assert sweeps == {"acc += a[i, k] @ b[j, k]"}
    lines = {e["args"]["line"].split(":")[0] for e in found if e["name"] == "GEMM"}
    assert {Path(line).name for line in lines} == {"contraction.py"}
    kinds = {e["args"]["kernel"] for e in found if e["name"] == "EXEC"}
    assert kinds == {d.kernel for d in seen.dispatches}


def test_a_device_without_timeline_says_so(tmp_path: Path) -> None:
    with ktpu.device("golden", machine="tiny", seed=3), ktpu.profile() as seen:
        work()
    with pytest.raises(CallError, match="keeps no timeline") as caught:
        seen.timeline(tmp_path / "run.json")
    assert "golden" in caught.value.fix
    assert not (tmp_path / "run.json").exists()


# ------------------------------------------------------------------- rooflines


def test_a_picture_puts_kernels_where_they_are(tmp_path: Path) -> None:
    with ktpu.profile() as seen:
        work()
        x = ktpu.tensor(np.ones((256, 256)))
        (x @ x).numpy()
    seen.roofline(tmp_path / "roof.svg")
    root = ET.parse(tmp_path / "roof.svg").getroot()
    circles = {c.findtext(f"{SVG}title", ""): c for c in root.iter(f"{SVG}circle")}
    computing = {share.kernel: share for share in seen.shares() if share.macs}
    assert set(circles) == set(computing) == {"linear_silu", "matmul"}
    left, right = (computing[name].macs / computing[name].words for name in circles)
    places = [float(circles[name].get("cx", "")) for name in circles]
    one = abs(math.log2(left) - math.log2(right))  # columns of the grid are powers of two
    lines = sorted({float(x.get("x1", "")) for x in root.iter(f"{SVG}line") if x.get("y1") == "40"})
    assert abs(places[0] - places[1]) / (lines[1] - lines[0]) == pytest.approx(one, abs=0.01)
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    share = computing["matmul"]
    rate = share.macs / share.cycles
    roof = min(1024, share.macs / share.words)  # duo has one port
    listed = next(text for text in texts if "matmul" in text)
    assert f"{rate:.1f} MAC/cycle, {100 * rate / roof:.0f}% of the roof" in listed
    assert any(re.search(r"softmax: .*% of the ports", text) for text in texts)


def test_the_roof_meets_at_the_ridge() -> None:
    root = ET.fromstring(picture("any", 512, 1, [Point("k", 1000, 256_000, 1000)]))
    roof = next(line for line in root.iter(f"{SVG}polyline"))
    corners = [tuple(map(float, place.split(","))) for place in roof.get("points", "").split()]
    circle = next(root.iter(f"{SVG}circle"))
    place = float(circle.get("cx", "")), float(circle.get("cy", ""))
    low, ridge, end = corners
    assert ridge[1] == end[1]
    assert low[0] < place[0] < ridge[0]
    # The kernel computes 256 MACs a word and a cycle: it is on the slope.
    slope = (low[1] - ridge[1]) / (ridge[0] - low[0])
    assert place[1] == pytest.approx(ridge[1] + slope * (ridge[0] - place[0]), abs=0.2)


def test_places_on_the_axes() -> None:
    axes = Axes((0, 10), (0, 5))
    assert axes.at(1, 1) == (LEFT, TOP + HEIGHT)
    assert axes.at(2**10, 2**5) == (LEFT + WIDTH, TOP)
    assert axes.at(2**5, 2**10) == (LEFT + WIDTH / 2, TOP)  # what is outside is at the edge


@pytest.mark.parametrize("points", [[], [Point("only <vectors> & more", 10, 0, 20)]])
def test_a_picture_without_contractions(points: list[Point]) -> None:
    root = ET.fromstring(picture("m", 512, 2, points))
    assert not list(root.iter(f"{SVG}circle"))
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert any("only <vectors> & more" in text for text in texts) == bool(points)
    assert "Roofline of m: 512 MAC/cycle, 2 words/cycle" in texts


# ------------------------------------------------------------------- programs


def test_the_program_of_a_kernel() -> None:
    x = ktpu.zeros((5, 20))
    program = kernels.softmax.program(x, n=4)
    text = program.disassemble()
    assert "y[r] <<= power * L.recip(L.row_sum(power))" in text
    assert ".unit 1 V" in text
    assert text.count("vfill ") >= 1
    assert program.plan.sizes["n"] == 4
    assert program.image.meta["kernel"] == "softmax"
    assert ktpu.stats().dispatches >= 0
