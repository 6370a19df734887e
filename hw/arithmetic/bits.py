"""Shifts that keep count: the combinational steps of aligning, normalising and rounding."""

from collections.abc import Callable, Sequence

from amaranth.hdl import Cat, Const, Mux, Value


def shift_right(value: Value, amount: Value) -> tuple[Value, Value]:
    """Shift right, and say whether a one was lost.

    Parameters
    ----------
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
        value = Mux(amount[place], Cat(value[step:], Const(0, step)), value)[:width]
    return value, lost


def normalise(value: Value, steps: Sequence[int]) -> tuple[Value, Value]:
    """Shift left by each of `steps` in turn where that many leading bits are zero.

    Parameters
    ----------
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
        clear = ~value[-step:].any()
        value = Mux(clear, Cat(Const(0, step), value[:-step]), value)[:width]
        taken.append(clear)
    return value, Cat(*reversed(taken))


def tree(values: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
    """Combine adjacent pairs, then pairs of pairs."""
    values = list(values)
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [combine(left, right) for left, right in pairs]
    return values[0]


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
