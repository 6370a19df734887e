"""Semaphores and counters against integers."""

from random import Random

import pytest

from hw.common.counters import NAMES, Counters
from hw.common.semaphores import Semaphores
from hw.sim.session import Session
from kohakutpu.config import SEMAPHORE_MAX, SEMAPHORES

pytestmark = pytest.mark.cocotb

TAKERS = 4


def encoded(waits: list[tuple[int, int]]) -> int:
    """Return one or two waits, (semaphore, count), as bits."""
    slots = [1 | semaphore << 1 | count << 6 for semaphore, count in waits]
    return sum(slot << 10 * place for place, slot in enumerate(slots))


class Model:
    """The semaphores as numbers, and who waits for what."""

    def __init__(self, session: Session, random: Random, used: list[int]) -> None:
        self.session, self.random, self.used = session, random, used
        self.values = [0] * SEMAPHORES
        self.waits: list[list[tuple[int, int]] | None] = [None] * TAKERS
        self.since = [0] * TAKERS
        self.overflows = 0

    def drive(self, posting: float) -> None:
        session, random = self.session, self.random
        session["post__valid"] = random.random() < posting
        session["post__payload"] = random.choice(self.used) | random.getrandbits(24) << 5
        for taker in range(TAKERS):
            if self.waits[taker] is None and random.random() < 0.3:
                chosen = random.sample(self.used, random.randint(0, 2))
                self.waits[taker] = [(s, random.choice((1, 1, 1, 2, 5))) for s in chosen]
                self.since[taker] = 0
            waits = self.waits[taker]
            session[f"take__{taker}"] = waits is not None
            session[f"waits__{taker}"] = encoded(waits or [])

    def sample(self) -> None:
        session, values = self.session, self.values
        granted = [taker for taker in range(TAKERS) if session[f"granted__{taker}"]]
        assert len(granted) <= 1
        posted = session["post__valid"] and session["post__ready"]
        if posted:
            semaphore = session["post__payload"] & 31
            full = values[semaphore] == SEMAPHORE_MAX
            assert session["overflow"] == full
            self.overflows += full
            values[semaphore] += not full
        else:
            assert not session["overflow"]
        for taker, waits in enumerate(self.waits):
            holds = waits is not None and all(values[s] >= count for s, count in waits)
            self.since[taker] = self.since[taker] + 1 if holds and not posted else 0
            if taker in granted:
                assert not posted
                assert holds
                for semaphore, count in waits or []:
                    values[semaphore] -= count
                self.waits[taker] = None


@pytest.mark.parametrize(("seed", "posting"), [(0, 0.3), (1, 0.9), (2, 0.15)])
def test_semaphores(seed: int, posting: float) -> None:
    random, overflows = Random(seed), 0
    with Session(Semaphores(TAKERS)) as session:
        for used in ([0, 1, 2], [3, 31], list(range(SEMAPHORES))):
            session.restart()
            model, grants, ready = Model(session, random, used), 0, 0
            for _ in range(3000):
                model.drive(posting)
                session.settle()
                # The second of a pair is subtracted in the cycle of its grant, the first before.
                busy = session["post__ready"] == 0
                if not busy or any(session[f"granted__{t}"] for t in range(TAKERS)):
                    before = any(model.values)
                    grants += sum(session[f"granted__{t}"] for t in range(TAKERS))
                    model.sample()
                    assert before or not busy
                ready += not busy
                assert max(model.since) <= 2 * TAKERS, "a wait that holds is not granted"
                session.advance()
                session.settle()
                if not busy and session["post__ready"]:
                    assert session["nonzero"] == any(model.values)
            overflows += model.overflows
            assert grants > 20
            assert ready > 2000
        assert (overflows > 0) == (posting == 0.9)


def test_a_semaphore_holds_255_and_no_more() -> None:
    with Session(Semaphores(TAKERS)) as session:
        session["post__valid"], session["post__payload"] = 1, 7
        taken = 0
        for _ in range(400):
            session.settle()
            taken += session["post__ready"]
            assert session["overflow"] == (taken > SEMAPHORE_MAX)
            session.advance()
        assert taken > SEMAPHORE_MAX + 10
        session["post__valid"] = 0
        session["take__2"], session["waits__2"] = 1, encoded([(7, 15)])
        grants = 0
        for _ in range(400):
            session.settle()
            grants += session["granted__2"]
            session.advance()
        assert grants == SEMAPHORE_MAX // 15
        assert not session["nonzero"]


def test_counters() -> None:
    random, counts = Random(5), [0] * len(NAMES)
    rates = [random.choice((0.0, 0.01, 0.5, 1.0)) for _ in NAMES]
    with Session(Counters()) as session:
        for cycle in range(2000):
            events = sum((random.random() < rate) << n for n, rate in enumerate(rates))
            session["events"] = events
            session.settle()
            assert session["index"] == cycle % len(NAMES)
            assert session["count"] == counts[session["index"]]
            for number in range(len(NAMES)):
                counts[number] += events >> number & 1
            session.advance()
    assert 2000 in counts
