"""What travels inside the landing: pieces of words, to the quantiser or as they are.

A cluster that takes ``k_per_cycle`` elements of K a cycle lands as much: a word, and a lane of an
entry, have ``32 / k_per_cycle`` *pieces*, which take a cycle each. An FP16 block is two words.
"""

from amaranth.hdl import Const, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.noc.flit import NODE_BITS, TAG_BITS, WORD_BITS, DataFields
from kohakutpu.config import KBLOCK
from kohakutpu.isa.operands import LOCAL_BITS

POSITION_BITS = 3
"""Of a place in a word, in units of 4 bytes; pieces begin at multiples of ``k_per_cycle / 4``."""


def pieces(k_per_cycle: int) -> int:
    """Return how many there are in a word."""
    return KBLOCK // k_per_cycle


def piece_bits(k_per_cycle: int) -> int:
    """Return the width of one."""
    return WORD_BITS // pieces(k_per_cycle)


def piece_number(k_per_cycle: int, position: Value) -> Value:
    """Return which piece of a word begins at a position."""
    return position[POSITION_BITS + 1 - number_bits(k_per_cycle) :]


def number_bits(k_per_cycle: int) -> int:
    """Return the width of a piece's number in its block."""
    return pieces(k_per_cycle).bit_length()


def is_last(number: Value) -> Value:
    """Tell whether the piece with a number is the last of its word."""
    return number.all() if len(number) else Const(1)


def word_piece(k_per_cycle: int) -> data.StructLayout:
    """Return what a piece takes along.

    =========  ==================================================================
    way        whose it is, a bit each: of rows, of columns, written as it is
    source     who sent it
    fields     of its flit
    number     in its word
    bits       ``k_per_cycle`` elements
    is_clear   of a CLEAR, which is one piece
    is_scales  of SCALES
    one_row    a CLEAR of one row
    one_word   a CLEAR of rows of one entry
    =========  ==================================================================

    What is decided about a piece hangs on registers only.
    """
    return data.StructLayout(
        {
            "way": 3,
            "source": NODE_BITS,
            "fields": DataFields,
            "number": number_bits(k_per_cycle) - 1,
            "bits": piece_bits(k_per_cycle),
            "is_clear": 1,
            "is_scales": 1,
            "one_row": 1,
            "one_word": 1,
        }
    )


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


class Block(data.Struct):
    """A block that waits for the quantiser.

    Members
    -------
    residual : 1
        Keep the residual term.
    target : Target
        Where it goes.
    """

    residual: 1
    target: Target


class Blocks(wiring.Signature):
    """Words go in piece by piece, blocks come out piece by piece; give it as ``Out`` of a part.

    Parameters
    ----------
    k_per_cycle : int
        Elements of K a cycle.

    Members
    -------
    i : In(stream of word_piece)
        All of a word without a gap; those after the first are taken at once.
    valid, block : Out(1), Out(Block)
        The next block. It goes with its last piece.
    read, number : In(1), In
        A piece of it is read, in the order of their numbers and without gaps.
    o, kept : Out(8 * k_per_cycle), Out(k_per_cycle / 2)
        That piece, a cycle later; elements that are not kept count as zeros.
    """

    def __init__(self, k_per_cycle: int) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(word_piece(k_per_cycle))),
                "valid": Out(1),
                "block": Out(Block),
                "read": In(1),
                "number": In(number_bits(k_per_cycle)),
                "o": Out(piece_bits(k_per_cycle)),
                "kept": Out(k_per_cycle // 2),
            }
        )
