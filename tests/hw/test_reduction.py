from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from hw.arithmetic.adder import Combine
from hw.arithmetic.reduction import RowReduction
from hw.sim.simulator import Simulator
from kohakutpu.numerics.scalar import reduction as scalar
from tests.hw import vectors

pytestmark = pytest.mark.cocotb

SCALAR = {Combine.SUM: scalar.row_sum, Combine.MAX: scalar.row_max, Combine.MIN: scalar.row_min}
LANES = (4, 8, 16)


@pytest.fixture(scope="module")
def simulators() -> dict[int, Simulator]:
    return {lanes: Simulator(RowReduction(lanes)) for lanes in LANES}


def apart(at: np.ndarray, beats: list[int]) -> np.ndarray:
    """Put beats off so that rows begin as far apart as they must."""
    at, firsts = at.copy(), np.cumsum([0, *beats[:-1]])
    for before, first in pairwise(firsts):
        at[first:] += max(at[before] + RowReduction.APART - at[first], 0)
    return at


@dataclass
class Rows:
    """Rows of any lengths, one operation each."""

    rows: list[np.ndarray]
    ops: list[Combine]

    def expected(self) -> np.ndarray:
        pairs = zip(self.rows, self.ops, strict=True)
        return np.array([SCALAR[op](row.tolist()) for row, op in pairs], np.uint32)

    def run(self, simulator: Simulator, lanes: int, gaps: float = 0.0) -> np.ndarray:
        """Return a result a row; what stands in gaps and masked lanes is noise."""
        rng = np.random.default_rng(11)
        beats = [-(-len(row) // lanes) for row in self.rows]
        total = sum(beats)
        cycles = int(total / (1 - gaps)) + 1
        at = np.sort(rng.permutation(cycles)[:total]) if gaps else np.arange(total)
        if lanes == 4:
            at = apart(at, beats)
            cycles = int(at[-1]) + 1
        valid = np.zeros(cycles, bool)
        valid[at] = True
        elements = rng.integers(0, 1 << 32, (cycles, lanes), np.uint32)
        keep = rng.integers(0, 1 << lanes, cycles)
        last = rng.integers(0, 2, cycles)
        op = rng.integers(0, 3, cycles)
        begin = 0
        for row, count, choice in zip(self.rows, beats, self.ops, strict=True):
            places = at[begin : begin + count]
            begin += count
            padded = elements[places].ravel()
            padded[: len(row)] = row
            elements[places] = padded.reshape(count, lanes)
            keep[places] = (1 << lanes) - 1
            keep[places[-1]] >>= count * lanes - len(row)
            last[places] = 0
            last[places[-1]] = 1
            op[places] = choice.value
        out = simulator.cycles(
            cycles + RowReduction.latency + 1,
            valid=valid,
            elements=elements,
            keep=keep,
            last=last,
            op=op,
        )
        done = np.flatnonzero(out["o_valid"])
        assert done.size == len(self.rows)
        waited = done - at[np.cumsum(beats) - 1]
        assert waited.max() <= RowReduction.latency
        return out["o"][done]

    def check(self, simulator: Simulator, lanes: int, gaps: float = 0.0) -> None:
        lengths = np.array([len(row) for row in self.rows])
        vectors.assert_same(self.run(simulator, lanes, gaps), self.expected(), lengths)


def random_rows(lengths: list[int], seed: int, near: bool = True) -> Rows:
    rng = np.random.default_rng(seed)
    rows = []
    for n, length in enumerate(lengths):
        ones = np.full(length, 0x3F800000, np.uint32)
        rows.append(
            vectors.random_near(ones, seed + n, 12)
            if near
            else vectors.random_codes(seed + n, length)
        )
    return Rows(rows, [Combine(value) for value in rng.integers(0, 3, len(lengths))])


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("gaps", [0.0, 0.4], ids=["dense", "gaps"])
def test_every_length_up_to_300(simulators: dict[int, Simulator], lanes: int, gaps: float) -> None:
    lengths = np.random.default_rng(1).permutation(np.arange(1, 301)).tolist()
    random_rows(lengths, 2).check(simulators[lanes], lanes, gaps)


@pytest.mark.parametrize("lanes", LANES)
def test_long_rows_and_short_ones_after_them(simulators: dict[int, Simulator], lanes: int) -> None:
    lengths = [1024, 1, 1, 128, 1, 2, 3, 129, 16, 16, 128, *[1] * 40, 4096, 127, 17, *[100] * 9]
    random_rows(lengths, 3).check(simulators[lanes], lanes)


@pytest.mark.parametrize("lanes", LANES)
def test_any_lengths_in_any_order(simulators: dict[int, Simulator], lanes: int) -> None:
    rng = np.random.default_rng(4)
    lengths = rng.choice([1, 2, 5, 15, 16, 17, 31, 100, 128, 129, 144, 255, 256], 600).tolist()
    random_rows(lengths, 5).check(simulators[lanes], lanes)


@pytest.mark.parametrize("beats", [1, 3, 4, 5, 9, 17, 18])
def test_shared_adders_that_never_rest(simulators: dict[int, Simulator], beats: int) -> None:
    # Rows of 5 beats have 5 pairs in their groups, rows of 1 beat 3 pairs of partials in 4 cycles.
    rng = np.random.default_rng(beats)
    lengths = [
        4 * n for n in [*rng.choice([1, 5, 33, beats], 40), *[beats] * 300, 32, 64, *[5] * 99]
    ]
    random_rows(lengths, beats).check(simulators[4], 4)


@pytest.mark.parametrize("lanes", LANES)
def test_any_numbers(simulators: dict[int, Simulator], lanes: int) -> None:
    rng = np.random.default_rng(6)
    lengths = rng.integers(1, 40, 400).tolist()
    rows = random_rows(lengths, 7, near=False)
    for row in rows.rows[::3]:
        row[:] = rng.choice([0x80000000, 0, 1, 0x80000001, 0x7F800000, 0xFF800000], len(row))
    rows.check(simulators[lanes], lanes)


def test_nothing_overtakes_a_full_ring(simulators: dict[int, Simulator]) -> None:
    # Rows of 8 groups and more fill the partials; short ones right behind them press on.
    rng = np.random.default_rng(9)
    for first in range(1, 18):
        lengths = [16 * groups for groups in [first, *rng.choice([1, 2, 7, 8, 9, 16], 60)]]
        random_rows(lengths, 10).check(simulators[16], 16)


def test_lanes_agree(simulators: dict[int, Simulator]) -> None:
    rows = random_rows([1000, 37, 512], 8)
    four, eight, sixteen = (rows.run(simulators[lanes], lanes) for lanes in LANES)
    assert (four == sixteen).all()
    assert (eight == sixteen).all()


def test_by_hand(simulators: dict[int, Simulator]) -> None:
    # 2**24 + 1 - 2**24: adjacent pairs lose the 1, or keep it where it stands apart.
    big, minus, one = 0x4B800000, 0xCB800000, 0x3F800000
    rows = [[big, one, minus], [big, minus, one], [0x80000000], [0x80000000, 0]]
    codes = Rows([np.array(row, np.uint32) for row in rows], [Combine.SUM] * 4)
    expected = [0, one, 0x80000000, 0]
    assert codes.run(simulators[4], 4).tolist() == expected
    assert codes.run(simulators[16], 16).tolist() == expected


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("lanes", [0, 2, 32])
def test_lanes_that_are_none(lanes: int) -> None:
    with pytest.raises(ValueError, match=f"lanes must be 4, 8 or 16, not {lanes}"):
        RowReduction(lanes)
