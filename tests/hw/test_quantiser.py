import numpy as np
import pytest

from hw.arithmetic.quantiser import Quantiser
from hw.sim.simulator import Simulator
from kohakutpu.numerics.scalar import mx

pytestmark = pytest.mark.cocotb

BLOCK = 32
Rig = tuple[int, int, Simulator]


@pytest.fixture(scope="module", params=[4, 16], ids=lambda count: f"{count} a cycle")
def rig(request: pytest.FixtureRequest) -> Rig:
    quantiser = Quantiser(request.param)
    return request.param, quantiser.latency, Simulator(quantiser)


def run(
    rig: Rig, blocks: np.ndarray, residual: np.ndarray, gaps: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return elements and scales that blocks of FP16 codes become; they come with gaps."""
    count, latency, simulator = rig
    rng = np.random.default_rng(9)
    pieces = BLOCK // count
    total = len(blocks) + int(len(blocks) * gaps / (1 - gaps))
    there = np.zeros(total, bool)
    there[rng.permutation(total)[: len(blocks)]] = True
    codes = rng.integers(0, 1 << 16, (total, BLOCK)).astype(np.uint16)
    codes[there] = blocks
    word = codes.reshape(-1, count)
    word = word.view(np.uint32) if count > 4 else word.view(f"u{2 * count}").ravel()
    flag = rng.integers(0, 2, total)
    flag[there] = residual
    valid, number = np.repeat(there, pieces), np.tile(np.arange(pieces), total)
    out = simulator.stream(
        latency, valid=valid, word=word, number=number, residual=np.repeat(flag, pieces)
    )
    shown = np.flatnonzero(out["o_valid"])
    assert shown.tolist() == np.flatnonzero(valid & (number % 2 == 1)).tolist()
    assert (out["o_number"][shown] == number[shown] // 2).all()
    assert (out["o_last"][shown] == (number[shown] == pieces - 1)).all()
    elements = out["elements"][shown].view(np.int8).reshape(-1, BLOCK)
    scales = out["scale"][shown].reshape(-1, pieces // 2)
    assert (scales == scales[:, :1]).all()
    return elements, scales[:, 0]


def reference(blocks: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pairs = [
        mx.quantise_block(block, bool(flag))
        for block, flag in zip(blocks.tolist(), residual.tolist(), strict=True)
    ]
    return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])


def assert_equal_to_scalar(
    rig: Rig, blocks: np.ndarray, residual: np.ndarray, gaps: float = 0.0
) -> None:
    elements, scales = run(rig, blocks, residual, gaps)
    expected, expected_scales = reference(blocks, residual)
    wrong = np.flatnonzero((elements != expected).any(axis=1) | (scales != expected_scales))
    if wrong.size:
        n = wrong[0]
        raise AssertionError(
            f"{wrong.size} of {len(blocks)} blocks differ; first {n}, residual {residual[n]}:\n"
            f"{[f'{code:04x}' for code in blocks[n]]}\n"
            f"{elements[n].tolist()} {scales[n]}, should be\n"
            f"{expected[n].tolist()} {expected_scales[n]}"
        )


def spread_blocks(count: int, seed: int) -> np.ndarray:
    """Blocks whose exponents lie within a few of each other, down to subnormals."""
    rng = np.random.default_rng(seed)
    top = rng.integers(0, 31, (count, 1))
    exponent = np.clip(top - rng.integers(0, 15, (count, BLOCK)) // rng.integers(1, 15), 0, 30)
    fraction = rng.integers(0, 1024, (count, BLOCK)) >> rng.integers(0, 11, (count, BLOCK))
    return rng.integers(0, 2, (count, BLOCK)) << 15 | exponent << 10 | fraction


@pytest.mark.parametrize("residual", [False, True], ids=["leading", "residual"])
def test_every_code_alone_and_next_to_others(rig: Rig, residual: bool) -> None:
    # Each of the 65536 codes in some block, by itself and under a larger neighbour.
    codes = np.arange(1 << 16)
    alone = codes.reshape(-1, BLOCK)
    assert_equal_to_scalar(rig, alone, np.full(len(alone), residual))
    strided = codes.reshape(BLOCK, -1).T
    assert_equal_to_scalar(rig, strided, np.full(len(strided), residual))


@pytest.mark.parametrize("residual", [False, True], ids=["leading", "residual"])
def test_every_code_sets_the_scale(rig: Rig, residual: bool) -> None:
    codes = np.arange(1 << 16)[:: 1 if residual else 3]
    blocks = np.zeros((len(codes), BLOCK), np.int64)
    blocks[np.arange(len(codes)), codes % BLOCK] = codes
    elements, scales = run(rig, blocks, np.full(len(codes), residual))
    for n in range(0, len(codes), 5):
        block = [int(codes[n])]
        expected, scale = mx.quantise_block(block, residual)
        assert (elements[n, codes[n] % BLOCK], scales[n]) == (expected[0], scale), f"{block[0]:04x}"
        assert np.count_nonzero(elements[n]) <= 1


def test_random(rig: Rig) -> None:
    blocks = spread_blocks(6000, 1)
    residual = np.random.default_rng(2).integers(0, 2, len(blocks)).astype(bool)
    assert_equal_to_scalar(rig, blocks, residual)


def test_specials_and_zeros(rig: Rig) -> None:
    rng = np.random.default_rng(3)
    blocks = spread_blocks(600, 4)
    special = rng.choice([0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFFFF], len(blocks))
    blocks[np.arange(len(blocks)), rng.integers(0, BLOCK, len(blocks))] = special
    blocks[::3] = rng.choice([0, 0x8000], (200, BLOCK))
    blocks[1::9, 16:] = 0x3C00
    assert_equal_to_scalar(rig, blocks, rng.integers(0, 2, len(blocks)).astype(bool))


def test_gaps_change_nothing(rig: Rig) -> None:
    blocks = spread_blocks(1500, 5)
    residual = np.random.default_rng(6).integers(0, 2, len(blocks)).astype(bool)
    assert_equal_to_scalar(rig, blocks, residual, gaps=0.5)


def test_by_hand(rig: Rig) -> None:
    # 1.0 and 127.5/64: the latter would round to 128, so it stays 127 and leaves 0.5/64.
    block = np.zeros((2, BLOCK), np.int64)
    block[:, 0] = 0x3C00
    block[:, 31] = 0xBFF8
    elements, scales = run(rig, block, np.array([False, True]))
    assert elements[0].tolist() == [64] + [0] * 30 + [-127]
    assert elements[1].tolist() == [0] * 31 + [-64]
    assert scales.tolist() == [127, 127 - 7]
