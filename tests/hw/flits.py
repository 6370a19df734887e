"""Flits as integers, for tests that run beside the hardware."""

from enum import Enum
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data

from hw.noc.flit import Flit


def pack(shape: Any, value: Any) -> int:
    """Return the bits of `value`: a number, a member of an enum, or a dict by member name."""
    if not isinstance(value, dict):
        number = value.value if isinstance(value, Enum) else int(value)
        width = Shape.cast(shape).width
        assert 0 <= number < 1 << width, f"{value!r} does not fit {width} bits"
        return number
    layout = data.Layout.cast(shape)
    return sum(
        pack(layout[name].shape, part) << layout[name].offset for name, part in value.items()
    )


def unpack(shape: Any, bits: int) -> Any:
    """Return a number, or a dict by member name; all of a union's members."""
    try:
        layout = data.Layout.cast(shape)
    except TypeError:  # an enum or a width
        return bits & (1 << Shape.cast(shape).width) - 1
    return {name: unpack(field.shape, bits >> field.offset) for name, field in layout}


def flit(**members: Any) -> int:
    return pack(Flit, members)


def parts(bits: int) -> dict[str, Any]:
    return unpack(Flit, bits)
