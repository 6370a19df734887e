"""Vector stages whose next instance starts before the last one has ended."""

import numpy as np
import pytest

from compiler.pipeline import ArgSpec, compile_kernel
from kohakutpu import api as ktpu
from kohakutpu import isa, kernels
from kohakutpu.config import WORD_BYTES, preset

pytestmark = pytest.mark.golden

SMALL = preset("small")


def program(name: str, *shapes: tuple[int, ...], n: int) -> list[str]:
    """Return the program's EXECs and loops, those of a reduction by how they reduce."""
    compiled = compile_kernel(getattr(kernels, name), [ArgSpec(s) for s in shapes], {"n": n}, SMALL)
    (unit,) = compiled.image.units
    found: list[str] = []
    for at in range(0, len(unit.words), WORD_BYTES):
        instruction = isa.decode("V", bytes(unit.words[at : at + WORD_BYTES]))
        if instruction.name == "EXEC":
            found.append(instruction.reduce if instruction.reduce != "none" else instruction.unary)
        elif instruction.name in ("LOOP", "END"):
            found.append(instruction.name)
    return found


def test_a_reduction_runs_between_the_two_ends_of_a_wait() -> None:
    assert program("softmax", (40, 33), n=4) == [
        "min", "LOOP", "sum", "min", "recip", "none", "END", "sum", "recip", "none",
    ]  # fmt: skip


def test_two_instances_are_not_worth_it() -> None:
    assert program("softmax", (8, 33), n=4) == ["LOOP", "min", "sum", "recip", "none", "END"]


def test_nothing_runs_ahead_where_its_scalars_are_needed_to_the_end() -> None:
    assert program("rmsnorm", (40, 33), (33,), n=4)[0] == "LOOP"
    assert program("add", (40, 160), (40, 160), n=320)[0] == "LOOP"


@pytest.mark.parametrize("shape", [(40, 33), (3, 11, 50), (2, 3, 9, 16)])
@pytest.mark.parametrize("machine", ["small", "duo"])
def test_bits_and_synchronisation(shape: tuple[int, ...], machine: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float16)

    def result(n: int, **options: int) -> bytes:
        with ktpu.device("golden", machine=machine, poison=True, **options) as session:
            found = kernels.softmax(ktpu.tensor(x), n=n).numpy().tobytes()
            session.close()
        return found

    want = result(64)
    for seed in range(8):
        assert result(2, seed=seed) == want
