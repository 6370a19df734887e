"""Where a window ends, and how many words its rows take."""

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.pipeline import Stages
from hw.noc.flit import ELEMENT_BITS, LENGTH_BITS, ROW_BITS

SPAN_BITS = LENGTH_BITS - ELEMENT_BITS + 1
"""Of the words in a row: 65,535 FP32 elements take 8,192."""


def words_of(halves: Value) -> Value:
    """Return how many words hold that many elements of 2 bytes."""
    return (halves + 15)[ELEMENT_BITS:]


class Reach(wiring.Component):
    """``end = base + (rows - 1) * stride + span``, `latency` cycles later, without overflow.

    Parameters
    ----------
    base_bits, stride_bits : int
        Widths.

    Members
    -------
    base, stride, rows, span : In
        A window: its base, granules from row to row, rows, granules of a row.
    end : Out
        The granule past its last one.
    """

    latency = 2

    def __init__(self, base_bits: int, stride_bits: int) -> None:
        super().__init__(
            {
                "base": In(base_bits),
                "stride": In(stride_bits),
                "rows": In(ROW_BITS),
                "span": In(SPAN_BITS),
                "end": Out(max(base_bits, stride_bits + ROW_BITS, SPAN_BITS) + 2),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Multiply, add."""
        m = Module()
        stage = Stages(m)
        product = stage(
            product=(self.rows - 1)[:ROW_BITS] * self.stride, start=self.base + self.span
        )
        m.d.comb += self.end.eq(stage(end=product.product + product.start).end)
        assert stage.count == self.latency
        return m
