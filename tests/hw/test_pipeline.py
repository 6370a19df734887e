"""What goes beside a pipeline comes out with it."""

import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from hw.arithmetic.pipeline import delayed, kept


@pytest.mark.parametrize("cycles", [3, 8, 12, 18])
def test_a_memory_waits_as_long_as_registers(cycles: int) -> None:
    m = Module()
    value = Signal(37)
    ranks = delayed(m, value, cycles)
    memory = kept(m, "beside", value, cycles)
    rng = random.Random(cycles)

    async def bench(ctx) -> None:
        for cycle in range(5 * cycles):
            ctx.set(value, rng.getrandbits(37))
            if cycle >= cycles:
                assert ctx.get(memory) == ctx.get(ranks)
                assert ctx.get(memory) != 0
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
