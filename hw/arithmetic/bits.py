"""Shifts that keep count: the combinational steps of aligning, normalising and rounding."""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import groupby
from operator import or_
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


def shift_right(
    m: Module, value: Value, amount: Value, keep: Value | None = None
) -> tuple[Value, Value]:
    """Shift right, and say whether a one was lost.

    Parameters
    ----------
    m : Module
        Where the steps go.
    value : Value
        What to shift.
    amount : Value
        Places, unsigned, of any width.
    keep : Value, optional
        If it is 0, the shifted value is 0 too.

    Returns
    -------
    (Value, Value)
        ``value >> amount``, as wide as `value`; 1 if any of the bits shifted out was set.
    """
    lost: Value = Const(0, 1)
    place = len(amount)
    while place:
        step = 2 if place > 1 else 1
        place -= step
        unit, digit = 1 << place, amount[place : place + step]
        for n in range(1, 1 << step):
            lost = lost | (value[unit * (n - 1) : unit * n].any() & (digit >= n))
        bits = list(value)
        choices = [bits[unit * n :] + [None] * min(unit * n, len(bits)) for n in range(1 << step)]
        value = wire(m, _choose(m, digit, choices, keep), f"right_{unit}")
        keep = None
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
    taken: list[Value] = []
    left = list(steps)
    while left:
        one, two = left[0], left[1] if len(left) > 1 else 0
        far = wire(m, ~value[-one:].any(), f"clear_{one}")
        if not two or 2 * one < len(value):
            moved = Mux(far, Cat(Const(0, one), value[:-one]), value)[: len(value)]
            value, taken, left = wire(m, moved, f"left_{one}"), [*taken, far], left[1:]
            continue
        # Both steps at once: most places have no bit to take from at one of them.
        behind = value[max(len(value) - one - two, 0) : -one]
        near = wire(m, ~Mux(far, behind.any(), value[-two:].any()), f"clear_{two}")
        bits = list(value)
        choices = [([None] * n + bits)[: len(bits)] for n in (0, two, one, one + two)]
        value = wire(m, _choose(m, Cat(near, far), choices, None), f"left_{two}")
        taken, left = [*taken, far, near], left[2:]
    return value, Cat(*reversed(taken))


def normalise_to(m: Module, value: Value, steps: Sequence[int], width: int) -> tuple[Value, Value]:
    """Normalise, and keep of the places below the first `width` no more than whether one is set.

    Parameters
    ----------
    m, value, steps
        As of `normalise`; the shifts of `value` reach `width` places.
    width : int
        How many places count.

    Returns
    -------
    (Value, Value)
        ``width + 1`` bits, the lowest one sticky; flags as of `normalise`.
    """
    sticky: Value = Const(0, 1)
    taken: list[Value] = []
    for index, step in enumerate(steps):
        size, needed = len(value), width + sum(steps[index + 1 :])
        clear = wire(m, ~value[-step:].any(), f"clear_{step}")
        low = max(size - needed - step, 0)
        sticky = sticky | value[:low].any() | (~clear & value[low : size - needed].any())
        moved = Cat(Const(0, step), value)[size - needed : size]
        kept = Mux(clear, moved, value[size - needed :])[:needed]
        value, taken = wire(m, kept, f"left_{step}"), [*taken, clear]
    return Cat(sticky, value), Cat(*reversed(taken))


def _choose(
    m: Module, digit: Value, choices: Sequence[Sequence[Value | None]], keep: Value | None
) -> Value:
    """Return the choice of number `digit`, where None is 0; or 0 unless `keep`.

    A bit that has few choices is the sum of them, each masked, and not a multiplexer of all. Bits
    that have the same choices are described together, as words: simulators work on those.
    """
    if keep is not None:
        keep = wire(m, keep, "keep")
    picks = [wire(m, digit == n if keep is None else (digit == n) & keep, "pick")
             for n in range(len(choices))]  # fmt: skip
    result: list[Value] = []
    columns = zip(*choices, strict=True)
    for has, group in groupby(columns, lambda column: [bit is not None for bit in column]):
        places = list(group)
        words = [Cat(*bits) if there else None
                 for there, bits in zip(has, zip(*places, strict=True), strict=True)]  # fmt: skip
        present = [word for word in words if word is not None]
        if len(present) == len(words):
            while len(present) > 1:
                select = digit[(len(words) // len(present)).bit_length() - 1]
                pairs = zip(present[::2], present[1::2], strict=True)
                present = [Mux(select, odd, even) for even, odd in pairs]
            word = present[0]
            result.append(word if keep is None else word & keep.replicate(len(word)))
        elif present:
            pairs = zip(picks, words, strict=True)
            terms = [p.replicate(len(word)) & word for p, word in pairs if word is not None]
            result.append(reduce(or_, terms))
        else:
            result.append(Const(0, len(places)))
    return Cat(*result)


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
