"""What must hold of the semaphores of a unit."""

from functools import reduce
from operator import and_, or_

from amaranth.hdl import Array, Assert, Assume, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.common.semaphores import Waits

SHOWN = (
    ("init=[]", "init=[SEMAPHORE_MAX] * SEMAPHORES"),
    (
        '"nonzero": Out(1),',
        """
                "nonzero": Out(1),
                "count": Out(range(SEMAPHORES + 1)),
                "half": Out(1),
                "zeroed": Out(range(SEMAPHORES + 1)),
                "turn": Out(range(takers)),
                "cells": Out(SEMAPHORE_MAX.bit_length()).array(SEMAPHORES),
""",
    ),
    (
        "        return m",
        """
        m.d.comb += [self.count.eq(held), self.half.eq(second)]
        m.d.comb += [self.zeroed.eq(zeroed), self.turn.eq(turn)]
        for number, cell in enumerate(self.cells):
            shown = semaphores.read_port(domain="comb")
            m.d.comb += [shown.addr.eq(number), cell.eq(shown.data)]
        return m
""",
    ),
)
"""Changes that let the semaphores show their insides, of which an induction has to speak, and fill
them with what a program before may have left."""


class Counted(wiring.Component):
    """A semaphore holds what was posted, less what was taken, and nobody waits without need.

    Takers ask until they are granted, for one or two semaphores, and for at least one of each.

    Parameters
    ----------
    part : Component
        Semaphores with the changes `SHOWN`.
    takers, semaphores, most : int
        Who waits, how many there are, and the most that one holds.
    """

    def __init__(self, part: wiring.Component, takers: int, semaphores: int, most: int) -> None:
        self._part, self._takers = part, takers
        self._semaphores, self._most = semaphores, most
        super().__init__(
            {
                "post": In(1),
                "semaphore": In(range(semaphores)),
                "take": In(1).array(takers),
                "waits": In(Waits).array(takers),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Count beside it, compare."""
        m = Module()
        m.submodules.part = part = self._part
        held = Array(
            Signal(range(self._most + 1), name=f"held_{n}") for n in range(self._semaphores)
        )
        posted, usable, busy = Signal(), Signal(), Signal()
        m.d.comb += [
            part.post.valid.eq(self.post),
            part.post.payload.semaphore.eq(self.semaphore),
            posted.eq(self.post & part.post.ready),
            Assert(~(usable & busy) | part.post.ready),  # a cycle for a pair, and no more
            Assert(part.overflow == (posted & (held[self.semaphore] == self._most))),
            Assert(part.nonzero == reduce(or_, (number != 0 for number in held))),
            Assert((posted + sum(part.granted)) <= 1),
        ]
        m.d.sync += [usable.eq(usable | part.post.ready), busy.eq(~part.post.ready)]
        with m.If(posted & ~part.overflow):
            m.d.sync += held[self.semaphore].eq(held[self.semaphore] + 1)
        asked = [self._watch(m, index, held, usable & ~posted) for index in range(self._takers)]
        self._inside(m, held, usable, Array(asked)[part.turn])
        return m

    def _watch(self, m: Module, index: int, held: Array, free: Value) -> Signal:
        """Take for one taker what it is granted, see how long it waits; return whether it does."""
        part, take, waits = self._part, self.take[index], self.waits[index]
        granted = part.granted[index]
        m.d.comb += [part.take[index].eq(take), part.waits[index].eq(waits)]
        asked, before = Signal(name=f"asked_{index}"), Signal(Waits, name=f"before_{index}")
        m.d.sync += [asked.eq(take & ~granted), before.eq(waits)]
        m.d.comb += Assume(~asked | (take & (waits.as_value() == before.as_value())))
        m.d.comb += Assume(~waits[1].valid | waits[0].valid)
        m.d.comb += Assume(~waits[1].valid | (waits[0].semaphore != waits[1].semaphore))
        for wait in waits:
            m.d.comb += Assume((wait.semaphore < self._semaphores) & (wait.count != 0))
        holds = Signal(name=f"holds_{index}")
        m.d.comb += [
            holds.eq(reduce(and_, (~w.valid | (held[w.semaphore] >= w.count) for w in waits))),
            Assert(~granted | (take & holds)),
        ]
        with m.If(granted):
            for wait in waits:
                with m.If(wait.valid):
                    m.d.sync += held[wait.semaphore].eq(held[wait.semaphore] - wait.count)
        # Two cycles for each of the others, and one more if it wants two itself.
        count = self._takers
        passed = Mux(part.turn > index, part.turn - index - 1, part.turn + (count - index - 1))
        waited = Signal(range(2 * count + 1), name=f"waited_{index}")
        m.d.comb += Assert(waited <= 2 * passed + part.half)
        with m.If(take & holds & ~granted & free):
            m.d.sync += waited.eq(waited + 1)
        with m.Else():
            m.d.sync += waited.eq(0)
        return asked

    def _inside(self, m: Module, held: Array, usable: Signal, asked: Value) -> None:
        """Say how what the part keeps and what is counted here belong together."""
        part = self._part
        waits = Array(self.waits)[part.turn]
        takes = Array(self.take)[part.turn]
        nonzero = [(n < part.zeroed) & (cell != 0) for n, cell in enumerate(part.cells)]
        m.d.comb += [
            Assert(part.turn < self._takers),
            Assert(part.zeroed <= self._semaphores),
            Assert(~usable | (part.zeroed == self._semaphores)),
            Assert(part.count == sum(nonzero)),
            Assert(~part.half | (usable & asked & takes & waits[1].valid)),
            Assert(~part.half | (held[waits[1].semaphore] >= waits[1].count)),
        ]
        for number, cell in enumerate(part.cells):
            first = part.half & (waits[0].semaphore == number)
            holds = cell + Mux(first, waits[0].count, 0)
            m.d.comb += [
                Assert((number >= part.zeroed) | (holds == held[number])),
                Assert(usable | (held[number] == 0)),
            ]
