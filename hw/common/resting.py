"""Parts that have a clock only while something goes through them, in fast simulators.

A simulator computes every stage of a pipeline in every cycle, whether anything is in it or not, and
that is most of its work. Without a clock edge a part needs none: its registers stay as they are.

Only pipelines may rest, from when the last results have left until the next operands come: then
nothing that they hold is anybody's, and what they would do meanwhile makes no difference. On an
FPGA, with assertions and with waves every clock is plain, and cycles and bits are the same.
"""

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Elaboratable,
    Module,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.lib import wiring


class GatesClocks:
    """The platform of a simulator in which parts may rest."""


def resting(
    m: Module, platform: object, part: wiring.Component, name: str, valid: Value
) -> Elaboratable:
    """Return `part` as the submodule that it becomes: with its own clock where clocks are gated.

    The gate opens in the low half of the clock, from what was settled there, so that it changes
    nothing while the clock is high.

    Parameters
    ----------
    m : amaranth.hdl.Module
        Where the gate goes, and the submodule should.
    platform : object
        As given to ``elaborate``.
    part : amaranth.lib.wiring.Component
        What rests: nothing but operands sets it going, and its ``latency`` is after how many cycles
        nothing is left of them, at most.
    name : str
        Of the part.
    valid : amaranth.hdl.Value
        It is given operands in this cycle.
    """
    if not isinstance(platform, GatesClocks):
        return part
    left = Signal(range(part.latency + 1), name=f"{name}_left")  # cycles until it may rest
    with m.If(valid):
        m.d.sync += left.eq(part.latency)
    with m.Elif(left != 0):
        m.d.sync += left.eq(left - 1)
    falling = ClockDomain(f"{name}_falling", clk_edge="neg", reset_less=True, local=True)
    gated = ClockDomain(f"{name}_gated", local=True)
    m.domains += [falling, gated]
    moves = Signal(init=1, name=f"{name}_moves")  # until the first falling edge
    m.d[falling.name] += moves.eq(valid | (left != 0) | ResetSignal(allow_reset_less=True))
    m.d.comb += [
        ClockSignal(falling.name).eq(ClockSignal()),
        ClockSignal(gated.name).eq(ClockSignal() & moves),
        ResetSignal(gated.name).eq(ResetSignal(allow_reset_less=True)),
    ]
    return DomainRenamer(gated.name)(part)
