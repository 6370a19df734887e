"""Posts: each one arrives, in its order, and the unit knows while one has not."""

from collections import deque
from random import Random

import pytest

from hw.common.poster import Poster
from hw.common.queue import UNPOSTED
from hw.common.semaphores import Post
from hw.noc.flit import Kind
from hw.sim.session import Session
from tests.hw.flits import pack, parts

pytestmark = pytest.mark.cocotb

NODE, SOURCES, INSTRUCTIONS = 5, 4, 300

Posted = tuple[int, int, int]  # to, semaphore, pc


def instruction(random: Random, pc: int) -> tuple[int, list[Posted]]:
    """Return what posts nothing, once or twice, a bit more often to the own unit than to others."""
    posts = [
        (random.choice((NODE, NODE, *range(16))), random.randrange(32), pc)
        for _ in range(random.randrange(3))
    ]
    slots = [{"valid": 1, "node": to, "semaphore": number} for to, number, _ in posts]
    # What an empty slot names is of no importance.
    slots += [{"valid": 0, "node": random.randrange(16)}] * (2 - len(slots))
    bits = sum(pack(Post, slot) << 10 * n for n, slot in enumerate(slots))
    return pack(UNPOSTED, {"posts": bits, "pc": pc}), posts


@pytest.mark.parametrize(("seed", "ready"), [(0, 1.0), (1, 0.5), (2, 0.1)])
def test_every_post_arrives(seed: int, ready: float) -> None:
    random = Random(seed)
    programs = [
        deque(instruction(random, source << 12 | n) for n in range(INSTRUCTIONS))
        for source in range(SOURCES)
    ]
    total = sum(len(posts) for program in programs for _, posts in program)
    left: dict[bool, deque[Posted]] = {own: deque() for own in (False, True)}
    accepted, arrived, idle = 0, 0, 0
    with Session(Poster(NODE, SOURCES)) as session:
        while any(programs) or arrived < total:
            for source, program in enumerate(programs):
                session[f"posting__{source}"] = bool(program)
                session[f"unposted__{source}"] = program[0][0] if program else 0
            session["o__ready"], session["own__ready"] = (random.random() < ready for _ in range(2))
            session.settle()
            # Of an instruction that is not done yet one may be on its way already.
            assert not (session["idle"] and accepted > arrived)
            idle += session["idle"]
            done = [source for source in range(SOURCES) if session[f"posted__{source}"]]
            assert len(done) <= 1
            for name, own in (("o", False), ("own", True)):
                if session[f"{name}__valid"] and session[f"{name}__ready"]:
                    left[own].append(seen(session[f"{name}__payload"], own))
                    arrived += 1
            for source in done:
                accepted += len(programs[source].popleft()[1])
            session.advance()
            assert session.cycle < 50 * SOURCES * INSTRUCTIONS
        session.settle()
        assert session["idle"]
    assert 0 < idle < session.cycle
    random = Random(seed)
    for source in range(SOURCES):
        sent = [p for n in range(INSTRUCTIONS) for p in instruction(random, source << 12 | n)[1]]
        for own, posts in left.items():
            mine = [post for post in posts if post[2] >> 12 == source]
            assert mine == [post for post in sent if (post[0] == NODE) == own]


def seen(payload: int, own: bool) -> Posted:
    if own:
        assert payload >> 5 & 15 == NODE
        return NODE, payload & 31, payload >> 9
    flit = parts(payload)
    assert flit["kind"] == Kind.POST.value
    post = flit["fields"]["post"]
    return flit["dest"].bit_length() - 1, post["semaphore"], post["pc"]
