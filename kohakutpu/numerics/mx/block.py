"""The MX block: its size and what its numbers are worth."""

import numpy as np
from numpy.typing import NDArray

Elements = NDArray[np.int8]
Scales = NDArray[np.uint8]

BLOCK = 32  # elements along K that share a scale
LANES = 4  # rows of an entry
NAN_SCALE = 0xFF
ELEMENT_BIAS = 133  # 127 of E8M0, and an element has 6 bits of fraction

# What a step of an element is worth under each scale but the last, which is the NaN.
WEIGHT: NDArray[np.float32] = np.ldexp(np.float32(1), np.arange(256) - ELEMENT_BIAS)
