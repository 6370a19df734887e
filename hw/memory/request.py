"""What travels inside a memory port."""

from amaranth.lib import data

from hw.noc.flit import (
    ELEMENT_BITS,
    LENGTH_BITS,
    NODE_BITS,
    PC_BITS,
    TAG_BITS,
    WORD_ADDRESS_BITS,
    WORD_BITS,
    Landing,
    ReadWord,
)
from kohakutpu.config import MAX_NODES, QUARTERS_PER_WORD

SPAN_BITS = LENGTH_BITS - ELEMENT_BITS + 1  # words of memory that a row touches


class Request(data.Struct):
    """A READ that arrived, and from whom."""

    read: ReadWord
    requester: NODE_BITS


class Span(data.Struct):
    """Words of memory to read for one row; past the end of memory: `fault`, and nothing to read."""

    word: WORD_ADDRESS_BITS
    words: SPAN_BITS
    fault: 1


class Row(data.Struct):
    """One row to answer.

    Members
    -------
    skew : 2
        Quarters of the first word that come before the row.
    elements : 17
        Elements of 2 bytes.
    landing : Landing
        Of the first word.
    first, last : 1
        First and last row of the request.
    nodes, ack, tag, pc, requester
        Of the request.
    """

    skew: 2
    elements: LENGTH_BITS
    landing: Landing
    first: 1
    last: 1
    nodes: MAX_NODES
    ack: 1
    tag: TAG_BITS
    pc: PC_BITS
    requester: NODE_BITS


class Beat(data.Struct):
    """A word that memory answered, or failed to."""

    word: WORD_BITS
    error: 1


class Write(data.Struct):
    """A WRITE that arrived, and from whom."""

    address: WORD_ADDRESS_BITS
    mask: QUARTERS_PER_WORD
    word: WORD_BITS
    ack: 1
    tag: TAG_BITS
    pc: PC_BITS
    requester: NODE_BITS


class Blame(data.Struct):
    """Whose instruction it was: for a fault."""

    requester: NODE_BITS
    pc: PC_BITS


class Receipt(data.Struct):
    """Whom to tell that a transfer is complete."""

    requester: NODE_BITS
    tag: TAG_BITS
