"""Values wider than a cluster holds: in pieces, to the same bits."""

from typing import Any

import numpy as np
import pytest

from kohakutpu import api as ktpu
from kohakutpu.api.attention import pieces
from kohakutpu.config import preset
from tests.kernels import oracle
from tests.kernels.test_attention import normal, stated

pytestmark = pytest.mark.golden


@pytest.mark.parametrize("width", [1, 15, 16, 512, 513, 1000, 1025, 5000])
def test_pieces_cover_all_columns_once(width: int) -> None:
    for name, most in (("tiny", 512), ("small", 4096)):
        found = pieces(width, preset(name))
        assert [first for first, _ in found] == [
            sum(n for _, n in found[:i]) for i in range(len(found))
        ]
        assert sum(n for _, n in found) == width
        assert all(first % 16 == 0 and 0 < n <= most for first, n in found)
        assert len(found) == -(-width // most)


@pytest.mark.parametrize("width", [513, 700])
@pytest.mark.parametrize("masks", [{}, {"causal": True}, {"keys": True, "bias": True}], ids=str)
def test_wide_values(masks: dict[str, bool], width: int) -> None:
    rows = 9
    arrays = [normal(2, rows, 20, seed=1), normal(2, rows, 20, seed=2), normal(2, rows, width)]
    keys, bias = (np.arange(rows) % 4 > 0).astype(np.float16), normal(2, rows, rows, seed=7)
    found: list[Any] = []
    for machine in ("tiny", "small"):
        with ktpu.device("golden", machine=machine, poison=True):
            given: dict[str, Any] = {"causal": masks.get("causal", False)}
            if "keys" in masks:
                given |= {"keys": ktpu.tensor(keys), "bias": ktpu.tensor(bias)}
            ktpu.reset_stats()
            found.append(ktpu.attention(*map(ktpu.tensor, arrays), **given).numpy())
            assert ktpu.stats().dispatches == (2 if machine == "tiny" else 1)
    oracle.assert_same_bits(found[0], found[1])
    if not masks:
        oracle.assert_same_bits(found[0], stated(*arrays, values="left"))


def test_columns_of_something_larger() -> None:
    with ktpu.device("golden", machine="tiny", poison=True):
        v = normal(1, 5, 1100)
        whole = ktpu.tensor(v)
        q, k = ktpu.tensor(normal(1, 3, 8, seed=1)), ktpu.tensor(normal(1, 5, 8, seed=2))
        for first, last in ((16, 1056), (4, 1000)):
            ours = ktpu.attention(q, k, whole[..., first:last]).numpy()
            alone = ktpu.attention(q, k, ktpu.tensor(v[..., first:last])).numpy()
            oracle.assert_same_bits(ours, alone)
