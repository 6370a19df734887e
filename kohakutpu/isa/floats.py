"""FP32 immediates as text that gives the same bits back."""

from __future__ import annotations

import math
import re
import struct

CANONICAL_NAN = 0x7FC00000
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf")


def write_fp32(bits: int) -> str:
    """Return the shortest decimal that reads back as `bits`; ``0f`` and hex digits for odd NaNs."""
    if bits == CANONICAL_NAN:
        return "nan"
    value: float = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    if value != value:
        return f"0f{bits:08X}"
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if read_fp32(text) == bits:
            return text if "." in text or "e" in text or "inf" in text else text + ".0"
    raise AssertionError(f"nine digits tell every FP32 number apart, but not {bits:#010x}")


def read_fp32(text: str) -> int | None:
    """Return the FP32 encoding of a number, None if the text is none or is too large."""
    if text == "nan":
        return CANONICAL_NAN
    if re.fullmatch("0f[0-9a-fA-F]{8}", text):
        return int(text[2:], 16)
    if _DECIMAL.fullmatch(text) is None:
        return None
    value = float(text)
    if math.isinf(value) and "inf" not in text:
        return None
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return None
