"""Mistakes in the hardware's description, all of them in one simulator: a number selects one.

`instead(n, wrong, right)` is `wrong` while mutant `n` is selected, else `right`. It exists only in
the altered copy of `hw` that `simulated` makes.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """A mutant of the hardware: `{n}` in `new` becomes its number."""

    name: str
    file: str
    old: str
    new: str
    times: int = 1


MISTAKES = (
    Mistake(
        "ADDA takes one step past the ring",
        "common/frontend.py",
        "(total >= modulo)",
        "instead({n}, total > modulo, total >= modulo)",
    ),
    Mistake(
        "loops make a pass too many",
        "common/frontend.py",
        "is_over.eq(count.data == 1)",
        "is_over.eq(count.data == instead({n}, 0, 1))",
    ),
    Mistake(
        "address registers keep what the last program left",
        "common/frontend.py",
        "value.eq(Mux(is_set.bit_select(reg, 1), register.data, 0))",
        "value.eq(Mux(is_set.bit_select(reg, 1) | instead({n}, reg != 0, 0), register.data, 0))",
    ),
    Mistake(
        "BARRIER and HALT wait for nobody",
        "common/frontend.py",
        "with m.If(self.settled):",
        "with m.If(instead({n}, 1, self.settled)):",
    ),
    Mistake(
        "a wait takes one, whatever it counts",
        "common/semaphores.py",
        "-Mux(second, waits[1].count, waits[0].count)",
        "-instead({n}, 1, Mux(second, waits[1].count, waits[0].count))",
    ),
    Mistake(
        "a wait is dropped when the semaphore holds anything",
        "common/semaphores.py",
        "(read.data >= w.count)",
        "(read.data >= instead({n}, 1, w.count))",
    ),
    Mistake(
        "254 is the most a semaphore holds",
        "common/semaphores.py",
        "(reads[0].data == SEMAPHORE_MAX)",
        "(reads[0].data == instead({n}, SEMAPHORE_MAX - 1, SEMAPHORE_MAX))",
    ),
    Mistake(
        "what is left in semaphores is nobody's business",
        "common/semaphores.py",
        "self.nonzero.eq(held != 0)",
        "self.nonzero.eq(instead({n}, 0, held != 0))",
    ),
    Mistake(
        "the second wait takes nothing",
        "common/semaphores.py",
        "write.en.eq(changes | ~usable)",
        "write.en.eq((changes & ~instead({n}, second, 0)) | ~usable)",
    ),
    Mistake(
        "a negative extent is large",
        "common/resolve.py",
        "Mux(left < 0, 0,",
        "Mux(instead({n}, 0, left < 0), 0,",
    ),
    Mistake(
        "an extent may be larger than its window",
        "common/resolve.py",
        "Mux(left > request.window,",
        "Mux(instead({n}, 0, left > request.window),",
    ),
    Mistake(
        "only odd registers raise a flag",
        "common/resolve.py",
        "request.imm[0] | value.any()",
        "request.imm[0] | instead({n}, value[0], value.any())",
    ),
    Mistake(
        "accumulate is lost",
        "cluster/gemm.py",
        "(kb == 0) & ~ins.accumulate",
        "(kb == 0) & instead({n}, 1, ~ins.accumulate)",
    ),
    Mistake(
        "B is read with the stride of A",
        "cluster/gemm.py",
        "column.eq(column + ins.b_stride)",
        "column.eq(column + instead({n}, ins.a_stride, ins.b_stride))",
    ),
    Mistake(
        "the last sub-tile is past the accumulator",
        "cluster/gemm.py",
        "(reach.o > machine.acc_subtiles)",
        "(reach.o > instead({n}, machine.acc_subtiles - 1, machine.acc_subtiles))",
    ),
    Mistake(
        "GEMM posts before it has finished",
        "cluster/gemm.py",
        "engine.done.eq(self.ended)",
        "engine.done.eq(instead({n}, taken, self.ended))",
    ),
    Mistake(
        "the scale of the last lane of packed entries is not kept",
        "cluster/direct.py",
        "write.scales.eq(Const(1, 1).replicate(LANES))",
        "write.scales.eq(Const(1, 1).replicate(LANES) ^ instead({n}, 8, 0))",
    ),
    Mistake(
        "what is cleared is not zero",
        "cluster/direct.py",
        "write.piece.eq(Mux(is_clear, 0, offered.bits))",
        "write.piece.eq(Mux(is_clear, instead({n}, 1, 0), offered.bits))",
    ),
    Mistake(
        "packed words are never acknowledged",
        "cluster/direct.py",
        "self.landed.valid.eq(finishes & fields.ack)",
        "self.landed.valid.eq(finishes & fields.ack & instead({n}, 0, 1))",
    ),
    Mistake(
        "ties of FP16 round away from zero",
        "arithmetic/converters.py",
        "round_up(placed.kept, placed.guard, placed.sticky)",
        "instead({n}, placed.guard, round_up(placed.kept, placed.guard, placed.sticky))",
    ),
    Mistake(
        "the NaN of FP16 has a payload",
        "arithmetic/converters.py",
        "Mux(placed.nan, HALF_NAN,",
        "Mux(placed.nan, instead({n}, HALF_NAN + 1, HALF_NAN),",
    ),
    Mistake(
        "elements are cut, not rounded",
        "arithmetic/quantiser.py",
        "up = round_up(quotient, guard, sticky) &",
        "up = instead({n}, 0, round_up(quotient, guard, sticky)) &",
        times=2,
    ),
    Mistake(
        "max of a number and a NaN is the number",
        "arithmetic/comparator.py",
        "nan=a.is_nan | b.is_nan,",
        "nan=instead({n}, a.is_nan, a.is_nan | b.is_nan),",
    ),
    Mistake(
        "a NaN is no condition",
        "arithmetic/comparator.py",
        "condition=~self.c.is_zero,",
        "condition=~self.c.is_zero & ~instead({n}, self.c.is_nan, 0),",
    ),
    Mistake(
        "windows of another format are the same",
        "vector/check.py",
        "same = (one.kind == other.kind) &",
        "same = instead({n}, 1, one.kind == other.kind) &",
    ),
    Mistake(
        "rows of dst may overlap",
        "vector/check.py",
        "used & is_dst & crosses",
        "used & is_dst & crosses & instead({n}, 0, 1)",
    ),
    Mistake(
        "VDRAIN writes a quarter too many",
        "vector/quarters.py",
        "(task.data_halves + 3)[2:]",
        "(task.data_halves + instead({n}, 4, 3))[2:]",
    ),
)
