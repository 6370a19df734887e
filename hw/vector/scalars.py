"""From row results to register beats: a lane a row."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.interfaces import BASE_BITS
from hw.noc.flit import ROW_BITS


class ScalarPacker(wiring.Component):
    """Gather the results of rows in beats, and write each where the register file has time.

    Results come one a cycle at most, so a beat is complete `lanes` cycles after the one before
    it; in `lanes` cycles there must be one with `free`. The last beat alone may come early.

    Parameters
    ----------
    lanes : int
        Rows that share a beat.

    Members
    -------
    start, base, rows : In
        A new window, its first beat, how many results.
    valid, value : In(1), In(32)
        A result.
    free : In(1)
        The register file takes a beat in this cycle.
    write, address, beat : Out
        A beat for it; written if `free`.
    finished : Out(1)
        The last beat is written with this clock edge.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        super().__init__(
            {
                "start": In(1),
                "base": In(BASE_BITS),
                "rows": In(ROW_BITS),
                "valid": In(1),
                "value": In(32),
                "free": In(1),
                "write": Out(1),
                "address": Out(BASE_BITS),
                "beat": Out(data.ArrayLayout(32, lanes)),
                "finished": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fill one beat while the other one waits."""
        m = Module()
        lanes = self._lanes
        filling, full = Signal(data.ArrayLayout(32, lanes), reset_less=True), Signal()
        lane, left = Signal(range(lanes)), Signal(ROW_BITS)
        written, moves = Signal(), Signal()
        m.d.comb += [
            written.eq(self.write & self.free),
            moves.eq(full & (~self.write | written)),
            self.finished.eq(written & ~full & (left == 0)),
        ]
        with m.If(written):
            m.d.sync += [self.write.eq(0), self.address.eq(self.address + 1)]
        with m.If(moves):
            m.d.sync += [self.write.eq(1), self.beat.eq(filling), full.eq(0)]
        with m.If(self.valid):
            for n in range(lanes):
                with m.If(lane == n):
                    m.d.sync += filling[n].eq(self.value)
                with m.Elif(lane == 0):
                    m.d.sync += filling[n].eq(0)
            ends = (left == 1) | (lane == lanes - 1)
            m.d.sync += [lane.eq(Mux(ends, 0, lane + 1)), left.eq(left - 1)]
            with m.If(ends):
                m.d.sync += full.eq(1)
        with m.If(self.start):
            m.d.sync += [self.address.eq(self.base), left.eq(self.rows), lane.eq(0)]
        return m
