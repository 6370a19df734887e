"""From row results to register beats: a lane a row."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.interfaces import BASE_BITS
from hw.noc.flit import ROW_BITS
from hw.vector.chain import Chain

DEPTH = 4


class ScalarPacker(wiring.Component):
    """Gather the results of rows in beats, and write each where the register file has time.

    Results come one a cycle at most, so full beats are `lanes` cycles apart, and in `lanes` cycles
    there must be one with `free`. Only the last beat of a window may come right behind another
    one; with two windows on their way, at most four beats wait.

    Parameters
    ----------
    lanes : int
        Rows that share a beat.

    Members
    -------
    valid, value : In(1), In(32)
        A result.
    base, rows, mark : In
        Of its window: the first beat, how many results, a bit that `finished` comes with.
    ends : Out(1)
        It is the last one of its window.
    free : In(1)
        The register file takes a beat in this cycle.
    write, address, beat : Out
        A beat for it; written if `free`.
    waits : Out(1)
        There is a beat for it, or soon.
    finished, finished_mark : Out(1)
        A window's last beat is written with this clock edge.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        super().__init__(
            {
                "valid": In(1),
                "value": In(32),
                "base": In(BASE_BITS),
                "rows": In(ROW_BITS),
                "mark": In(1),
                "ends": Out(1),
                "free": In(1),
                "write": Out(1),
                "address": Out(BASE_BITS),
                "beat": Out(data.ArrayLayout(32, lanes)),
                "waits": Out(1),
                "finished": Out(1),
                "finished_mark": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fill a beat, queue it."""
        m = Module()
        lanes = self._lanes
        shape = data.StructLayout(
            {
                "beat": data.ArrayLayout(32, lanes),
                "address": BASE_BITS,
                "last": 1,
                "mark": 1,
            }
        )
        m.submodules.queue = queue = Chain(shape, DEPTH)
        filled, row = Signal(shape, reset_less=True), Signal(ROW_BITS)
        lane = row[: lanes.bit_length() - 1]
        complete = Signal()
        waiting = queue.o.payload
        m.d.comb += [
            self.ends.eq(self.valid & (row + 1 == self.rows)),
            queue.valid.eq(complete),
            queue.i.eq(filled),
            queue.o.ready.eq(self.free),
            self.write.eq(queue.o.valid),
            self.beat.eq(waiting.beat),
            self.address.eq(waiting.address),
            self.waits.eq(complete | queue.waits),
            self.finished.eq(self.write & self.free & waiting.last),
            self.finished_mark.eq(waiting.mark),
        ]
        m.d.sync += complete.eq(self.valid & (self.ends | (lane == lanes - 1)))
        with m.If(self.valid):
            m.d.sync += [
                row.eq(Mux(self.ends, 0, row + 1)),
                filled.address.eq(self.base + (row >> len(lane))),
                filled.last.eq(self.ends),
                filled.mark.eq(self.mark),
            ]
            for n in range(lanes):
                with m.If(lane == n):
                    m.d.sync += filled.beat[n].eq(self.value)
                with m.Elif(lane == 0):
                    m.d.sync += filled.beat[n].eq(0)
        return m
