"""A multiplier whose factors stand at the upper end still multiplies."""

import random
from typing import Any

import pytest

from hw.board.multipliers import FACTOR_BITS, MULTIPLIER, PRODUCT_BITS, align


def factor(name: str, width: int, is_signed: bool) -> list[Any]:
    """Return the bits of a factor as Yosys connects them: its sign, or zeros, up to the end."""
    bits = [f"{name}{n}" for n in range(width)]
    return bits + ([bits[-1]] if is_signed else ["0"]) * (FACTOR_BITS - width)


def netlist(widths: tuple[int, int], is_signed: tuple[bool, bool], read: int) -> dict[str, Any]:
    """Return a multiplier, and a reader of the lower bits of its product."""
    pins: dict[str, list[Any]] = {f"P{n}": [f"p{n}"] for n in range(PRODUCT_BITS)}
    for name, width, sign in zip("AB", widths, is_signed, strict=True):
        pins |= {f"{name}{n}": [bit] for n, bit in enumerate(factor(name, width, sign))}
        pins[f"SIGNED{name}"] = ["1" if sign else "0"]
    directions = {pin: "output" if pin[0] == "P" else "input" for pin in pins}
    reader = {f"I{n}": [f"p{n}"] for n in range(read)}
    return {
        "m": {"type": MULTIPLIER, "connections": pins, "port_directions": directions},
        "r": {
            "type": "X",
            "connections": reader,
            "port_directions": dict.fromkeys(reader, "input"),
        },
    }


def multiplied(pins: dict[str, list[Any]], values: dict[str, int], read: int) -> int:
    """Return what the reader sees of a multiplier with these pins, as a signed number."""

    def bit(name: Any) -> int:
        return int(name) if name in ("0", "1") else values[name[0]] >> int(name[1:]) & 1

    def number(name: str) -> int:
        code = sum(bit(pins[f"{name}{n}"][0]) << n for n in range(FACTOR_BITS))
        negative = pins[f"SIGNED{name}"] == ["1"] and code >> (FACTOR_BITS - 1)
        return code - (1 << FACTOR_BITS if negative else 0)

    product = number("A") * number("B")
    wires = {pins[f"P{n}"][0]: product >> n & 1 for n in range(PRODUCT_BITS)}
    code = sum(wires[f"p{n}"] << n for n in range(read))
    return code - (1 << read if code >> (read - 1) else 0)


@pytest.mark.parametrize("widths", [(8, 8), (8, 11), (18, 8), (2, 17)])
def test_products_stay(widths: tuple[int, int]) -> None:
    cells = netlist(widths, (True, True), sum(widths))
    assert align(cells) == 1
    pins = cells["m"]["connections"]
    for name, width in zip("AB", widths, strict=True):
        assert [pins[f"{name}{n}"] for n in range(FACTOR_BITS - width)] == [["0"]] * (18 - width)
    rng = random.Random(str(widths))
    for _ in range(200):
        values = {n: rng.randrange(1 << w) for n, w in zip("AB", widths, strict=True)}
        numbers = [
            values[n] - (values[n] >> (w - 1) << w) for n, w in zip("AB", widths, strict=True)
        ]
        assert multiplied(pins, values, sum(widths)) == numbers[0] * numbers[1]


def test_factors_without_sign_stay_where_they_are() -> None:
    cells = netlist((12, 12), (False, False), 24)
    before = dict(cells["m"]["connections"])
    assert align(cells) == 0
    assert cells["m"]["connections"] == before


def test_the_one_with_a_sign_moves_alone() -> None:
    cells = netlist((16, 8), (False, True), 25)
    assert align(cells) == 1
    pins = cells["m"]["connections"]
    assert pins["A0"] == ["A0"]
    assert pins["B17"] == ["B7"]
    assert multiplied(pins, {"A": 40_000, "B": 0x80}, 25) == 40_000 * -128


def test_a_product_that_is_read_to_its_end_is_refused() -> None:
    cells = netlist((8, 8), (True, True), 17)
    with pytest.raises(ValueError, match=r"m: the upper 20 bits of the product are read"):
        align(cells)
