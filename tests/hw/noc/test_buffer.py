from collections import deque
from random import Random

import pytest

from hw.noc.buffer import CHAINED, ElasticBuffer, Queue, Register
from hw.sim.session import Session

pytestmark = pytest.mark.cocotb


def run(session: Session, places: int, chances: tuple[float, float], seed: int) -> int:
    """Pass numbers on at random, against a queue; return how many have left."""
    random, inside, number, left = Random(seed), deque[int](), 0, 0
    offered: int | None = None
    for _ in range(3000):
        session["i__valid"] = valid = random.random() < chances[0]
        session["o__ready"] = ready = random.random() < chances[1]
        session["i__payload"] = (number * 0x9E37) % (1 << 40) if valid else random.getrandbits(40)
        session.settle()
        if "empty" in session.ports:
            assert session["empty"] == (not inside)
        assert len(inside) <= places
        if offered is not None:  # and not taken: it stays
            assert session["o__valid"]
            assert session["o__payload"] == offered
        offered = None
        if session["o__valid"]:
            assert session["o__payload"] == inside[0]
            if ready:
                inside.popleft()
                left += 1
            else:
                offered = inside[0]
        if valid and session["i__ready"]:
            inside.append((number * 0x9E37) % (1 << 40))
            number += 1
        session.advance()
    assert number - left == len(inside)
    return left


@pytest.mark.parametrize(
    ("component", "places"),
    [
        (Register(40), 1),
        (ElasticBuffer(40), 2),
        (Queue(40, 1), 1),
        (Queue(40, CHAINED), CHAINED),
        (Queue(40, CHAINED + 1), CHAINED + 1),
        (Queue(40, 16), 16),
    ],
    ids=["register", "elastic", "chain-1", "chain", "memory-odd", "memory"],
)
def test_what_goes_in_comes_out(component: Register, places: int) -> None:
    with Session(component) as session:
        for seed, chances in enumerate([(0.5, 0.5), (0.9, 0.3), (0.2, 0.9), (1.0, 0.6)]):
            session.restart()
            assert run(session, places, chances, seed) > 400
        session.restart()
        assert run(session, places, (1.0, 1.0), 9) >= 3000 - places - 2  # one a cycle
        # Nobody takes: every place fills.
        session.restart()
        session["i__valid"], session["o__ready"] = 1, 0
        taken = 0
        for _ in range(4 * places + 4):
            session.settle()
            taken += session["i__ready"]
            session.advance()
        assert taken == places
