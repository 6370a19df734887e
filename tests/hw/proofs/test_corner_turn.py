"""What is proved of the corner-turn, and to what depth, and that mistakes are found."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.hw.proofs.altered import altered, some
from tests.hw.proofs.prover import Refuted, prove
from tests.hw.proofs.turning import Turned, begins

pytestmark = pytest.mark.build
FILE = "hw/cluster/columns.py"
K_PER_CYCLE = 32  # a word is one piece
STEPS = 11  # a matrix of four columns comes and goes


def turned(
    bits: Sequence[int], first: int, sources: Sequence[int], *changes: tuple[str, str]
) -> Turned:
    module = altered(FILE, begins(first), *changes)
    part = module.ColumnTurn(sources, K_PER_CYCLE)
    return Turned(part, sources, K_PER_CYCLE, bits, first)


@pytest.mark.parametrize(
    ("bits", "first", "sources", "steps"),
    [
        ((0, 4), 0, (2,), STEPS),
        pytest.param((0, 4), 4, (2,), STEPS, marks=pytest.mark.slow),
        pytest.param((0, 4), 8, (2,), STEPS, marks=pytest.mark.slow),
        pytest.param((0, 4), 12, (2,), STEPS, marks=pytest.mark.slow),
        pytest.param((1, 2), 0, (2,), STEPS, marks=pytest.mark.slow),
        pytest.param((3,), 0, (2, 5), STEPS, marks=pytest.mark.slow),
        pytest.param((0,), 0, (2,), 14, marks=pytest.mark.slow),
    ],
)
def test_rows_come_out_as_columns(
    bits: Sequence[int], first: int, sources: Sequence[int], steps: int, tmp_path: Path
) -> None:
    said = prove(turned(bits, first, sources), tmp_path, steps)
    assert f"[base case {steps}]" in said


MISTAKES = {
    "columns turn the other way": (0, ("turn, left=False", "turn, left=True")),
    "the last row is not kept": (0, (">= row)", "> row)")),
    "a whole buffer is written over": (0, ("~complete.bit_select(filling, 1)", "1")),
    "it turns a cycle early": (0, ("m.d.sync += turn.eq", "m.d.comb += turn.eq")),
    "lanes come in pairs": (0, ("lane.eq(column[:2])", "lane.eq(column[:2] & 1)")),
    "a column is missing": (0, ("column == Cat(Const(3, 2)", "column == Cat(Const(2, 2)")),
    "half of the columns": (12, ("(bank - column)[:within]", "(bank - (column & 7))[:within]")),
}


@pytest.mark.parametrize("mistake", some(MISTAKES, 2))
def test_a_mistake_is_found(mistake: str, tmp_path: Path) -> None:
    first, change = MISTAKES[mistake]
    with pytest.raises(Refuted):
        prove(turned((0, 4), first, (2,), change), tmp_path, STEPS)
