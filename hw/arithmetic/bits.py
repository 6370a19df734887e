"""Shifts that keep count: the combinational steps of aligning, normalising and rounding."""

from collections.abc import Callable, Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value


def wire(m: Module, value: Any, name: str = "wire") -> Any:
    """Give an expression a signal of its own.

    Amaranth writes an expression out wherever it is used; one that is used twice at each of
    several steps would double with every step.
    """
    signal = Signal(value.shape(), name=name)
    m.d.comb += signal.eq(value)
    return signal


def shift_right(m: Module, value: Value, amount: Value) -> tuple[Value, Value]:
    """Shift right, and say whether a one was lost.

    Parameters
    ----------
    m : Module
        Where the steps go.
    value : Value
        What to shift.
    amount : Value
        Places, unsigned, of any width.

    Returns
    -------
    (Value, Value)
        ``value >> amount``, as wide as `value`; 1 if any of the bits shifted out was set.
    """
    width = len(value)
    lost: Value = Const(0, 1)
    for place in range(len(amount)):
        step = min(1 << place, width)
        lost = lost | (amount[place] & value[:step].any())
        moved = Mux(amount[place], Cat(value[step:], Const(0, step)), value)[:width]
        value = wire(m, moved, f"right_{1 << place}")
    return value, wire(m, lost, "lost")


def normalise(m: Module, value: Value, steps: Sequence[int]) -> tuple[Value, Value]:
    """Shift left by each of `steps` in turn where that many leading bits are zero.

    Parameters
    ----------
    m : Module
        Where the steps go.
    value : Value
        What to shift.
    steps : sequence of int
        Falling powers of two. Down to 1 and adding up to the width less one or more, they bring
        the leading one to the top; a value of zero stays one.

    Returns
    -------
    (Value, Value)
        The shifted value, as wide as `value`; a flag for each step, that of the last one lowest:
        the number of places where the last step is 1.
    """
    width = len(value)
    taken = []
    for step in steps:
        clear = wire(m, ~value[-step:].any(), f"clear_{step}")
        moved = Mux(clear, Cat(Const(0, step), value[:-step]), value)[:width]
        value = wire(m, moved, f"left_{step}")
        taken.append(clear)
    return value, Cat(*reversed(taken))


def tree(m: Module, values: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
    """Combine adjacent pairs, then pairs of pairs; `m` takes the sums on the way."""
    values = list(values)
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [wire(m, combine(left, right)) for left, right in pairs]
    return values[0]


def multiply(m: Module, left: Value, right: Value) -> Value:
    """Multiply in logic: for factors too short to spend a hardware multiplier on."""
    width = len(left) + len(right)
    rows = [Mux(right[place], left << place, 0)[:width] for place in range(len(right))]
    rows += [Const(0, width)] * ((1 << (len(rows) - 1).bit_length()) - len(rows))
    return tree(m, rows, lambda a, b: (a + b)[:width])


def larger(left: Value, right: Value) -> Value:
    """Return the larger of two unsigned values."""
    return Mux(left < right, right, left)


def round_up(kept: Value, guard: Value, sticky: Value) -> Value:
    """Return whether rounding to nearest, ties to even, adds one to `kept`.

    Parameters
    ----------
    kept : Value
        The places that stay.
    guard : Value
        The first place that goes.
    sticky : Value
        1 if any place below it is set.
    """
    return guard & (sticky | kept[0])
