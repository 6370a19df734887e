"""MXINT8: blocks of 32 elements along K that share a power of two.

An element ``e`` under a scale ``s`` is worth ``e * 2**(s - 133)``: E8M0 has a bias of 127 and an
element 6 bits of fraction; a scale of 0xFF makes its block NaN. For a block of FP16 with largest
magnitude ``amax``, and ``X = floor(log2(amax))``:

* any NaN or Inf: scale 0xFF, elements 0;
* ``amax == 0``: scale 0, elements 0;
* else scale ``X + 127``, element ``clamp(round_half_even(x * 2**(6 - X)), -127, 127)``.

The residual term is the same rule on what the leading term leaves, ``x`` minus its value; a block
with NaN or Inf has 0xFF in both.
"""

from kohakutpu.numerics.mx.block import BLOCK, LANES, NAN_SCALE
from kohakutpu.numerics.mx.contraction import Operand, gemm, prepare
from kohakutpu.numerics.mx.quantise import dequantise, quantise
from kohakutpu.numerics.mx.region import pack_region, region_words, unpack_region

__all__ = [
    "BLOCK",
    "LANES",
    "NAN_SCALE",
    "Operand",
    "dequantise",
    "gemm",
    "pack_region",
    "prepare",
    "quantise",
    "region_words",
    "unpack_region",
]
