"""Elementwise and row computations: from value graphs to VFILL, EXEC and VDRAIN.

`lower_vector` is the entry; `choose_block` finds the size of a block that nobody chose;
`places` tells whether statements fit a core.
"""

from compiler.vector.capacity import places
from compiler.vector.choose import choose_block
from compiler.vector.context import (
    Allocator,
    IndexValue,
    Landing,
    Operand,
    Placement,
    StateHome,
    TileWindow,
    VectorContext,
    VectorLowering,
)
from compiler.vector.lower import lower_vector

__all__ = [
    "Allocator",
    "IndexValue",
    "Landing",
    "Operand",
    "Placement",
    "StateHome",
    "TileWindow",
    "VectorContext",
    "VectorLowering",
    "choose_block",
    "lower_vector",
    "places",
]
