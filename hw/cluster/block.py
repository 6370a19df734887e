"""What travels inside the landing: words on their way to the quantiser, and where they go."""

from amaranth.lib import data

from hw.noc.flit import NODE_BITS, TAG_BITS, WORD_BITS
from kohakutpu.isa.operands import LOCAL_BITS


class Target(data.Struct):
    """Where a block lands, and what that completes.

    Members
    -------
    in_b : 1
        L1B, not L1A.
    entry, lane : 14, 2
        Where in it.
    source : 4
        Who sent it.
    closes : 1
        With this block, one thing less of `source` is on its way.
    ack : 1
        `requester` wants to know of it, under its `tag`.
    """

    in_b: 1
    entry: LOCAL_BITS
    lane: 2
    source: NODE_BITS
    closes: 1
    ack: 1
    requester: NODE_BITS
    tag: TAG_BITS


class HalfBlock(data.Struct):
    """Half a block of FP16; the first is followed by the second, which carries the rest.

    Members
    -------
    word : 256
        16 elements.
    second : 1
        It is the second half.
    residual : 1
        Keep the residual term.
    target : Target
        Where the block goes.
    """

    word: WORD_BITS
    second: 1
    residual: 1
    target: Target
