"""What is proved of semaphores, for ever, and that mistakes are found."""

from pathlib import Path

import pytest

from tests.hw.proofs.altered import altered, some
from tests.hw.proofs.counting import SHOWN, Counted
from tests.hw.proofs.prover import Refuted, prove

pytestmark = pytest.mark.build
FILE = "hw/common/semaphores.py"
STEPS = 8  # more than any induction or counterexample here takes


def counted(takers: int, semaphores: int, most: int, *changes: tuple[str, str]) -> Counted:
    module = altered(FILE, *SHOWN, *changes, SEMAPHORES=semaphores, SEMAPHORE_MAX=most)
    return Counted(module.Semaphores(takers), takers, semaphores, most)


@pytest.mark.parametrize(
    ("takers", "semaphores", "most"),
    [(4, 4, 255), pytest.param(4, 16, 255, marks=pytest.mark.slow)],
)
def test_what_was_posted_can_be_taken(
    takers: int, semaphores: int, most: int, tmp_path: Path
) -> None:
    said = prove(counted(takers, semaphores, most), tmp_path, STEPS, unbounded=True)
    assert "Induction step proven: SUCCESS!" in said


MISTAKES = {
    "the second wait takes nothing": (
        "-Mux(second, waits[1].count, waits[0].count)",
        "-Mux(second, 0, waits[0].count)",
    ),
    "a post comes between two waits": ("usable & ~second", "usable"),
    "one less is the most": ("== SEMAPHORE_MAX)", "== SEMAPHORE_MAX - 1)"),
    "any number is enough": ("read.data >= w.count", "read.data != 0"),
    "who asks keeps the turn": ("with m.If(~takes | ~waits[1].valid):", "with m.If(~asks):"),
    "the last has no turn": ("turn == self._takers - 1", "turn == self._takers - 2"),
    "every post makes one more that is not zero": ("(posts & (before == 0))", "posts"),
    "one word is not zeroed": ("zeroed == SEMAPHORES", "zeroed == SEMAPHORES - 1"),
}


@pytest.mark.parametrize("mistake", some(MISTAKES, 2))
def test_a_mistake_is_found(mistake: str, tmp_path: Path) -> None:
    with pytest.raises(Refuted):
        prove(counted(3, 4, 3, MISTAKES[mistake]), tmp_path, STEPS, unbounded=True)
