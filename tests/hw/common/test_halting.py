"""A unit tells that it has halted behind its last post, whoever has the turn in between."""

import pytest

from hw.common.shell import Shell
from hw.noc.flit import Buffer, Event, Kind, Order
from hw.sim.session import Session
from kohakutpu import isa
from kohakutpu.config import preset
from kohakutpu.isa import Post
from tests.hw.flits import flit, parts

pytestmark = pytest.mark.cocotb

TINY = preset("tiny")
CLUSTER, VECTOR = TINY.of_kind("C")[0], TINY.of_kind("V")[0]


@pytest.mark.parametrize("pause", [1, 3])
def test_the_last_flit_is_the_report(pause: int) -> None:
    halt = isa.HALT(posts=(Post(CLUSTER.id, 3), Post(CLUSTER.id, 4)))
    word = int.from_bytes(isa.encode(halt), "little")
    kick = {"kick": {"address": 0, "instructions": 1}}
    start = {"kick": {"order": Order.START}}
    coming = [flit(kind=Kind.KICK, fields=start, word=kick)]
    sent = []
    with Session(Shell(TINY, VECTOR)) as session:
        while session.cycle < 400:
            session["i__valid"] = bool(coming)
            session["i__payload"] = coming[0] if coming else 0
            session["o__ready"] = session.cycle % pause == 0
            session.settle()
            if coming and session["i__ready"]:
                coming.pop()
            if session["o__valid"] and session["o__ready"]:
                sent.append(parts(session["o__payload"]))
                if sent[-1]["kind"] == Kind.READ.value:
                    landing = sent[-1]["word"]["read"]["landing"]
                    assert landing["buffer"] == Buffer.INSTRUCTION.value
                    fields = {"data": {"landing": landing}}
                    coming.append(flit(kind=Kind.DATA, fields=fields, word={"raw": word}))
            session.advance()
    kinds = [Kind(flit["kind"]) for flit in sent]
    assert kinds == [Kind.READ, Kind.POST, Kind.POST, Kind.REPORT]
    assert [flit["fields"]["post"]["semaphore"] for flit in sent[1:3]] == [3, 4]
    assert sent[3]["fields"]["report"]["event"] == Event.HALTED.value
