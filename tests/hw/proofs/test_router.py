"""What is proved of routers, and to what depth, and that mistakes are found."""

from pathlib import Path

import pytest

from hw.noc.routes import behind
from kohakutpu.config import Machine
from tests.hw.proofs.altered import altered, some
from tests.hw.proofs.prover import Refuted, prove
from tests.hw.proofs.routing import Delivered

pytestmark = pytest.mark.build
ROUTER, INLET = "hw/noc/router.py", "hw/noc/inlet.py"
EDGE = Machine("edge", "C M V\nH . .")
SQUARE = Machine("square", "C V C\nV M H\nC V .")


def router(machine: Machine, x: int, y: int, *changes: tuple[str, str, str]) -> Delivered:
    """Return one of its routers, with text of its files exchanged.

    A port of memory sends nothing to itself.
    """
    parts = {
        file: altered(file, *((old, new) for name, old, new in changes if name == file))
        for file in (ROUTER, INLET)
    }
    vars(parts[ROUTER])["Inlet"] = parts[INLET].Inlet
    return Delivered(parts[ROUTER].Router(behind(machine, x, y), returns=False), returns=False)


@pytest.mark.parametrize(
    ("machine", "y", "steps"),
    [
        (EDGE, 0, 7),
        pytest.param(EDGE, 0, 10, marks=pytest.mark.slow),
        pytest.param(SQUARE, 1, 9, marks=pytest.mark.slow),
    ],
    ids=["four-ports", "four-ports-deep", "five-ports"],
)
def test_what_is_for_a_node_comes_to_it(
    machine: Machine, y: int, steps: int, tmp_path: Path
) -> None:
    said = prove(router(machine, 1, y), tmp_path, steps)
    assert f"[base case {steps}]" in said


NEXT = "Mux(moves, Mux(there, wanted, 0), remains)"
MISTAKES = {
    "copies are for all nodes of the set": (ROUTER, "flit.dest & self.behind[out]", "flit.dest"),
    "who has taken a copy is forgotten": (INLET, NEXT, NEXT.replace("remains", "self.left")),
    "one copy is enough": (INLET, "remains == 0", "(self.left == 0) | self.leaves.any()"),
    "the next flit has left already": (
        INLET,
        NEXT,
        NEXT.replace("wanted", "wanted & ~self.leaves"),
    ),
    "everybody is granted": (ROUTER, "arbiter.grant[index] & o.ready", "o.ready"),
    "a grant does not wait": (
        ROUTER,
        "arbiter.taken.eq(o.valid & o.ready)",
        "arbiter.taken.eq(1)",
    ),
    "the wrong one is sent": (ROUTER, "reversed(others)", "others"),
}


@pytest.mark.parametrize("mistake", some(MISTAKES, 2))
def test_a_mistake_is_found(mistake: str, tmp_path: Path) -> None:
    with pytest.raises(Refuted):
        prove(router(EDGE, 1, 0, MISTAKES[mistake]), tmp_path, 6)
