"""What is proved of small parts, and to what depth; `docs/conformance.md` has the list."""

from collections.abc import Callable
from pathlib import Path

import pytest
from amaranth.hdl import Module, Mux
from amaranth.lib import wiring

from hw.noc.arbiter import RoundRobin
from hw.noc.buffer import CHAINED, ElasticBuffer, Queue, Register
from tests.hw.proofs.properties import WIDTH, Fair, InOrder
from tests.hw.proofs.prover import Refuted, prove

pytestmark = pytest.mark.build


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_arbiter_is_fair_for_ever(count: int, tmp_path: Path) -> None:
    said = prove(Fair(count), tmp_path, 12, unbounded=True)
    assert "Induction step proven: SUCCESS!" in said


def test_a_wider_arbiter_is_fair_for_some_time(tmp_path: Path) -> None:
    assert "[base case 14]" in prove(Fair(5), tmp_path, 14)


@pytest.mark.parametrize(
    ("part", "places", "steps"),
    [
        (lambda: Register(WIDTH), 1, 16),
        (lambda: ElasticBuffer(WIDTH), 2, 16),
        (lambda: Queue(WIDTH, 4), 4, 14),
        (lambda: Queue(WIDTH, CHAINED + 1), CHAINED + 1, 10),
    ],
    ids=["register", "elastic", "chain", "memory"],
)
def test_a_buffer_keeps_the_order(
    part: Callable[[], wiring.Component], places: int, steps: int, tmp_path: Path
) -> None:
    said = prove(InOrder(part(), places), tmp_path, steps)
    assert f"[base case {steps}]" in said


class Forgetful(Register):
    """A register that takes an element while it cannot give one away."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += self.i.ready.eq(1)
        return m


class Stubborn(RoundRobin):
    """An arbiter that always prefers the first one."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lowest = (self.requests & -self.requests)[: self._count]
        m.d.comb += self.grant.eq(Mux(self.requests.any(), lowest, 0))
        return m


def test_a_wrong_buffer_is_refuted(tmp_path: Path) -> None:
    with pytest.raises(Refuted):
        prove(InOrder(Forgetful(WIDTH), 1), tmp_path, 8)


def test_an_unfair_arbiter_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.hw.proofs import properties

    monkeypatch.setattr(properties, "RoundRobin", Stubborn)
    with pytest.raises(Refuted):
        prove(Fair(3), tmp_path, 8)
