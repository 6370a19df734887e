"""Where in its window an EXEC is: at the sources, at the destination."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.noc.flit import ROW_BITS

COLS_BITS = 14


def granules(elements: Value, per: int) -> Value:
    """Return how many granules of `per` elements hold `elements`; `per` is a power of two."""
    return (elements + per - 1)[per.bit_length() - 1 :]


class BeatWalk(wiring.Component):
    """Count the beats of rows, in order.

    Parameters
    ----------
    lanes : int
        Elements of a beat.

    Members
    -------
    step : In(1)
        Go to the next beat; from the last one, to the first of the next window.
    rows, cols : In
        The window, in the cycle before its first step already.
    row, beat : Out
        Where it is.
    ends_row, ends : Out(1)
        It is the last beat of a row; of the last row.
    keep : Out(lanes)
        Elements below `cols`.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        super().__init__(
            {
                "step": In(1),
                "rows": In(ROW_BITS),
                "cols": In(COLS_BITS),
                "row": Out(ROW_BITS),
                "beat": Out(COLS_BITS),
                "ends_row": Out(1),
                "ends": Out(1),
                "keep": Out(lanes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Two counters."""
        m = Module()
        lanes = self._lanes
        tail = self.cols[: lanes.bit_length() - 1]
        # Found a cycle ahead: whoever steps waits for the answer.
        count = granules(self.cols, lanes)
        last_row = Signal()
        m.d.comb += self.ends.eq(self.ends_row & last_row)
        m.d.sync += [
            self.ends_row.eq(
                Mux(
                    self.step,
                    Mux(self.ends_row, count == 1, self.beat + 2 == count),
                    self.beat + 1 == count,
                )
            ),
            last_row.eq(
                Mux(
                    self.step & self.ends_row,
                    Mux(last_row, self.rows == 1, self.row + 2 == self.rows),
                    self.row + 1 == self.rows,
                )
            ),
        ]
        for n in range(lanes):
            m.d.comb += self.keep[n].eq(~self.ends_row | (tail == 0) | (tail > n))
        with m.If(self.step):
            m.d.sync += self.beat.eq(Mux(self.ends_row, 0, self.beat + 1))
            m.d.sync += self.row.eq(Mux(self.ends, 0, self.row + self.ends_row))
        return m
