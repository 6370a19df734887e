"""Words become halves, in their order, at the earliest three cycles later, whoever waits."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from hw.vector.halves import HALF_BITS, SLOTS, HalfWords

pytestmark = pytest.mark.unit
WORD = 2 * HALF_BITS


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("eager", [False, True])
def test_halves_of_words(seed: int, eager: bool) -> None:
    """Against a queue: some words end after one half, some give a half twice, some both once."""
    rng = random.Random(seed)
    halves = HalfWords()
    words = [rng.getrandbits(WORD) for _ in range(300)]
    wanted = [rng.choice([[0], [0, 1], [0, 0, 1, 1], [0, 0]]) for _ in words]
    waiting = deque(enumerate(words))
    inside: deque[tuple[int, int]] = deque()  # number, and the cycle it came in
    step, seen = 0, 0

    async def bench(ctx) -> None:
        nonlocal step, seen
        cycle = 0
        while waiting or inside:
            comes = bool(waiting) and len(inside) < SLOTS - 1 and (eager or rng.random() < 0.5)
            ctx.set(halves.valid, comes)
            ctx.set(halves.i, waiting[0][1] if comes else rng.getrandbits(WORD))
            there = ctx.get(halves.there)
            if there:
                number, since = inside[0]
                assert cycle - since >= 3
                half = wanted[number][step]
                assert ctx.get(halves.o) == words[number] >> HALF_BITS * half & (1 << HALF_BITS) - 1
            take = bool(there) and (eager or rng.random() < 0.6)
            done = take and step + 1 == len(wanted[inside[0][0]])
            ctx.set(halves.take, take)
            ctx.set(halves.done, done)
            following = 0 if done or not inside else wanted[inside[0][0]][step + take]
            ctx.set(halves.half, following)
            if take:
                seen += 1
                step = 0 if done else step + 1
            if done:
                inside.popleft()
            if comes:
                inside.append((waiting.popleft()[0], cycle))
            await ctx.tick()
            cycle += 1
            assert cycle < 20 * len(words), "stuck"
        ctx.set(halves.take, 0)
        ctx.set(halves.done, 0)
        for _ in range(6):
            await ctx.tick()
            assert not ctx.get(halves.there)
        if eager:  # a half a cycle, but where three words with one half each are under way
            assert cycle <= 1.05 * seen

    simulator = Simulator(halves)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen == sum(map(len, wanted))
