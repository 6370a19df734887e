"""FP32 comparison and choice."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.formats import Float32
from hw.arithmetic.pipeline import Stages

ONE = 0x3F800000


class Choice(enum.Enum, shape=3):
    """What a `Comparator` makes of its operands."""

    MAX = 0
    MIN = 1
    LT = 2
    LE = 3
    EQ = 4
    SELECT = 5


class Comparator(wiring.Component):
    """The larger or smaller of ``a`` and ``b``, a truth about them, or the one ``c`` points at.

    ``MAX`` and ``MIN`` order -0 below +0 and give NaN with a NaN. ``LT``, ``LE`` and ``EQ`` give
    1.0 or +0, the latter with a NaN. ``SELECT`` gives ``a`` where ``c`` is not a zero, else ``b``.

    Members
    -------
    a, b, c : In(Float32)
        Operands; only ``SELECT`` reads ``c``.
    op : In(Choice)
        What to do with them.
    o : Out(Float32)
        The result, `latency` cycles later.
    """

    latency = 2

    def __init__(self) -> None:
        super().__init__(
            {
                "a": In(Float32),
                "b": In(Float32),
                "c": In(Float32),
                "op": In(Choice),
                "o": Out(Float32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare, choose."""
        m = Module()
        stage = Stages(m)
        a, b = self.a, self.b
        below = a.magnitude < b.magnitude
        compared = stage(
            a=a,
            b=b,
            op=self.op,
            nan=a.is_nan | b.is_nan,
            a_is_larger=Mux(a.sign != b.sign, b.sign, below == a.sign),
            equal=(a.is_zero & b.is_zero) | (a.as_value() == b.as_value()),
            condition=~self.c.is_zero,
        )

        take_a = Signal()
        truth = Signal()
        with m.Switch(compared.op):
            with m.Case(Choice.MAX):
                m.d.comb += take_a.eq(compared.a_is_larger)
            with m.Case(Choice.MIN):
                m.d.comb += take_a.eq(~compared.a_is_larger)
            with m.Case(Choice.LT):
                m.d.comb += truth.eq(~compared.a_is_larger & ~compared.equal)
            with m.Case(Choice.LE):
                m.d.comb += truth.eq(~compared.a_is_larger | compared.equal)
            with m.Case(Choice.EQ):
                m.d.comb += truth.eq(compared.equal)
            with m.Case(Choice.SELECT):
                m.d.comb += take_a.eq(compared.condition)

        is_order = (compared.op == Choice.MAX) | (compared.op == Choice.MIN)
        is_number = is_order | (compared.op == Choice.SELECT)
        # Of two numbers, one of them NaN, an order takes the NaN.
        a_wins = Mux(is_order & compared.nan, compared.a.is_nan, take_a)
        chosen = Signal(Float32)
        m.d.comb += chosen.eq(Mux(a_wins, compared.a, compared.b))
        verdict = Mux(truth & ~compared.nan, ONE, 0)
        m.d.comb += self.o.eq(stage(o=Mux(is_number, chosen.canonical, verdict)).o)
        assert stage.count == self.latency
        return m
