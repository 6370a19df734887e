"""``left * right + plus`` of integers: what engines ask about an instruction before it begins."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class MultiplyAdd(wiring.Component):
    """``o = left * right + plus``, in a cycle or, without a multiplier, one for each bit of `left`.

    Parameters
    ----------
    left_bits, right_bits : int
        Widths of the factors, which are unsigned.
    serial : bool
        Without a multiplier.

    Members
    -------
    start : In(1)
        Take the operands. One that is under way is forgotten.
    left, right, plus : In(left_bits), In(right_bits), In(left_bits + right_bits)
        Operands.
    done : Out(1)
        `o` is there, for one cycle.
    o : Out(left_bits + right_bits + 1)
        The result.
    """

    def __init__(self, left_bits: int, right_bits: int, *, serial: bool) -> None:
        self._serial = serial
        super().__init__(
            {
                "start": In(1),
                "left": In(left_bits),
                "right": In(right_bits),
                "plus": In(left_bits + right_bits),
                "done": Out(1),
                "o": Out(left_bits + right_bits + 1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Multiply and add, or shift and add until nothing is left."""
        m = Module()
        if not self._serial:
            m.d.sync += [
                self.done.eq(self.start),
                self.o.eq(self.left * self.right + self.plus),
            ]
            return m
        busy = Signal()
        left, right = Signal.like(self.left, reset_less=True), Signal.like(self.o, reset_less=True)
        m.d.comb += self.done.eq(busy & (left == 0))
        with m.If(self.start):
            m.d.sync += [
                busy.eq(1),
                left.eq(self.left),
                right.eq(self.right),
                self.o.eq(self.plus),
            ]
        with m.Else():
            m.d.sync += [
                busy.eq(left != 0),
                left.eq(left >> 1),
                right.eq(right << 1),
                self.o.eq(self.o + Mux(left[0], right, 0)),
            ]
        return m
