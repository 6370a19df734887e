"""Factors of 8 bits in multipliers of 18 by 18.

Yosys repeats the sign of a short factor up to the last input, so that one wire ends at eleven of
them, where wires are scarcest. Instead a factor can stand at the upper end, with zeros below, which
are no wires: then the product is that much further up as well.
"""

from collections.abc import Mapping
from typing import Any

MULTIPLIER = "MULT18X18D"
FACTOR_BITS, PRODUCT_BITS = 18, 36
ZERO, ONE = "0", "1"


def align(cells: Mapping[str, Any]) -> int:
    """Move the signed factors of all multipliers to the upper end.

    Parameters
    ----------
    cells : mapping
        Name to cell, as Yosys writes them; their connections are changed. The top bits of a product
        must have no reader where they only repeat the sign, which is so after optimisation.

    Returns
    -------
    int
        How many multipliers were changed.

    Raises
    ------
    ValueError
        If a bit of a product that would be lost has a reader.
    """
    read = {
        bit
        for cell in cells.values()
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == "input"
        for bit in bits
    }
    changed = 0
    for name, cell in cells.items():
        if cell["type"] != MULTIPLIER:
            continue
        pins = cell["connections"]
        shift = sum(_raise(pins, factor) for factor in "AB" if pins[f"SIGNED{factor}"] == [ONE])
        if not shift:
            continue
        product = [pins[f"P{n}"] for n in range(PRODUCT_BITS)]
        lost = product[PRODUCT_BITS - shift :]
        if any(bit in read for bits in lost for bit in bits):
            raise ValueError(f"{name}: the upper {shift} bits of the product are read")
        for n, bits in enumerate([*lost, *product[: PRODUCT_BITS - shift]]):
            pins[f"P{n}"] = bits
        changed += 1
    return changed


def _raise(pins: dict[str, list[Any]], factor: str) -> int:
    """Move a factor up as far as its sign is repeated; return how far."""
    bits = [pins[f"{factor}{n}"] for n in range(FACTOR_BITS)]
    shift = 0
    while shift < FACTOR_BITS - 1 and bits[-2 - shift] == bits[-1]:
        shift += 1
    for n, moved in enumerate([[ZERO]] * shift + bits[: FACTOR_BITS - shift]):
        pins[f"{factor}{n}"] = moved
    return shift
