"""What travels on the mesh: one header and one word, each flit a whole packet.

Every flit has a destination (a *set* of nodes, bit ``n`` for node ``n``), the node it comes from,
a kind, 60 bits of fields that the kind gives a meaning, and a word.

========  ========================  =============================================================
kind      from, to                  means
========  ========================  =============================================================
READ      unit or control, memory   walk the descriptor in the word, answer with DATA
DATA      memory or unit, units     land the word in a buffer
CLEAR     unit, units               land zeros in a rectangle of a buffer
WRITE     unit, memory              write the masked quarters of the word
POST      unit, unit                add one to a semaphore
ACK       memory or unit, unit      transfer ``tag`` is complete at the sender of this flit
CREDIT    memory, unit or control   the port has taken a READ of this class from its queue
KICK      control, units            start, leave the barrier, stop
REPORT    any, control              halted, arrived at the barrier, fault, counters
========  ========================  =============================================================

**Landing.** DATA says where its word goes so that a receiver needs no table of transfers: the
`Landing` of a flit is final, computed by whoever sends it. Memory answers a READ with what a peer
would send. `Form` fixes how ``offset`` and ``detail`` follow from row ``r`` and word ``w``:

========  ==========  ==================================  ========================================
form      buffer      offset                              detail
========  ==========  ==================================  ========================================
LINEAR    vector,     base + r * stride + w               0
          instruction
ROWS      L1A, L1B    base + r // 4 * stride + w // 2     lane ``r % 4``, half ``w % 2`` (bit 2)
COLUMNS   L1A, L1B    base                                K row inside its block of 32: ``r``
ELEMENTS  L1A, L1B    base + r * stride + w // 4          lane ``w % 4``
SCALES    L1A, L1B    base                                ``nk``, the same in every flit
========  ==========  ==================================  ========================================

* LINEAR: a copy. Vector L1 words, or slots of the instruction buffer.
* ROWS: FP16 through the quantiser, two words a block; a block whose last word is its first half
  (``row_last`` with half 0) is completed with zeros.
* COLUMNS: ``transpose``. One READ brings at most 32 rows of one word: 16 columns of one block.
  Row ``e`` of the operand, element ``r`` of its block is element ``e`` of the word: with the corner
  turned, group ``j`` of the 4 goes to entry ``offset + j * stride``. Groups past ``last_element``
  are not written; K rows past the flit with ``last`` are zeros.
* ELEMENTS: packed operands, 32 bytes of one lane a word; a memory row is a group, ``4 * nk`` words.
* SCALES: 8 entries a word, 4 bytes each, in the order entry ``i`` is group ``i // nk``, block
  ``i % nk``, at ``offset + i // nk * stride + i % nk``; the receiver counts from ``first`` on,
  per source. ``last_element // 2`` is the last entry of the word.

The words are masked by the sender: elements past ``last_element`` are zeros, never padding.
"""

from amaranth.lib import data, enum

from kohakutpu.config import ADDRESS_BITS, MAX_NODES, QUARTERS_PER_WORD, SEMAPHORES, WORD_BYTES
from kohakutpu.isa.operands import LOCAL_BITS

WORD_BITS = 8 * WORD_BYTES
NODE_BITS = (MAX_NODES - 1).bit_length()
WORD_ADDRESS_BITS = ADDRESS_BITS - 2
SEMAPHORE_BITS = (SEMAPHORES - 1).bit_length()
ELEMENT_BITS = 4  # which of the 16 elements of 2 bytes of a word
ROW_BITS = 12  # rows of a window
LENGTH_BITS = 17  # elements of 2 bytes in a row: 65,535 of FP32 at most
STRIDE_BITS = 24  # words from memory row to memory row
DETAIL_BITS = 10
TAG_BITS = 3
PC_BITS = 20
FIELD_BITS = 60

READ_CREDITS = 2
"""READs of each class (instructions; the rest) a requester may have in a port's queue."""

ACKED_WRITES = 4
"""WRITEs with ``ack`` a requester may have unanswered at a port."""


class Kind(enum.Enum, shape=4):
    """What a flit is."""

    READ = 0
    DATA = 1
    CLEAR = 2
    WRITE = 3
    POST = 4
    ACK = 5
    CREDIT = 6
    KICK = 7
    REPORT = 8


class Buffer(enum.Enum, shape=2):
    """Where a word lands; the first three are numbered like the operand `buffer` of a drain."""

    VECTOR = 0
    L1A = 1
    L1B = 2
    INSTRUCTION = 3


class Form(enum.Enum, shape=3):
    """How a word lands; see the table of this module."""

    LINEAR = 0
    ROWS = 1
    COLUMNS = 2
    ELEMENTS = 3
    SCALES = 4


class Order(enum.Enum, shape=2):
    """What a KICK tells."""

    START = 0
    RELEASE = 1
    STOP = 2


class Event(enum.Enum, shape=2):
    """What a REPORT tells."""

    HALTED = 0
    ARRIVED = 1
    FAULT = 2
    COUNTERS = 3


class Cause(enum.Enum, shape=4):
    """Causes of a fault, in the order of the contract's table."""

    NONE = 0
    ILLEGAL = 1
    LOOP_DEPTH = 2
    L1_RANGE = 3
    ACC_RANGE = 4
    REG_RANGE = 5
    OVERLAP = 6
    MISALIGNED = 7
    MEMORY = 8
    SEM_OVERFLOW = 9
    SEM_LEFT = 10
    WATCHDOG = 11


class Landing(data.Struct):
    """Where a word goes in a receiver; in a READ, where the first one goes.

    Members
    -------
    buffer, form : Buffer, Form
        See the table of this module.
    residual : 1
        The quantiser keeps the residual term.
    offset : 14
        Word of a vector L1, entry of L1A or L1B, slot of the instruction buffer.
    stride : 14
        What `offset` grows by from row to row, or from group to group.
    detail : 10
        See the table. In a READ ``nk`` with SCALES, else 0.
    """

    buffer: Buffer
    form: Form
    residual: 1
    offset: LOCAL_BITS
    stride: LOCAL_BITS
    detail: DETAIL_BITS


class DataFields(data.Struct):
    """Fields of DATA and of CLEAR.

    Members
    -------
    landing : Landing
        Where it goes.
    last_element : 4
        Last element of 2 bytes that is data; those after it are zeros.
    first, row_last, last : 1
        First word of the READ's answer; last word of a row; last word of all.
    ack : 1
        Every receiver sends an ACK to `requester` when this word has really landed, and with it
        all that its source sent before.
    requester : 4
        The unit whose transfer it is: the source of the READ, or of the DATA itself.
    tag : 3
        The requester's name for the transfer.
    """

    landing: Landing
    last_element: ELEMENT_BITS
    first: 1
    row_last: 1
    last: 1
    ack: 1
    requester: NODE_BITS
    tag: TAG_BITS


class WriteFields(data.Struct):
    """Fields of WRITE: where, which quarters, and for whom a failure or ACK is."""

    address: WORD_ADDRESS_BITS
    mask: QUARTERS_PER_WORD
    ack: 1
    tag: TAG_BITS
    pc: PC_BITS


class PostFields(data.Struct):
    """Fields of POST: which, and the instruction it is from, for a fault."""

    semaphore: SEMAPHORE_BITS
    pc: PC_BITS


class AckFields(data.Struct):
    """Fields of ACK."""

    tag: TAG_BITS


class CreditFields(data.Struct):
    """Fields of CREDIT: 1 for a READ of instructions."""

    instruction: 1


class KickFields(data.Struct):
    """Fields of KICK; `KickWord` belongs to START."""

    order: Order


class ReportFields(data.Struct):
    """Fields of REPORT; the word holds counters, `pc` then says which."""

    event: Event
    unit: NODE_BITS
    pc: PC_BITS
    cause: Cause


class ReadWord(data.Struct):
    """The word of a READ: a two-dimensional descriptor, and how to answer.

    Members
    -------
    address : 34
        Quarter where the first row starts.
    rows : 12
        Rows, at least 1.
    elements : 17
        Elements of 2 bytes in a row, at least 1.
    stride : 24
        Words from row to row.
    landing : Landing
        Of the first word.
    nodes : 16
        Who receives the answer.
    ack, tag : 1, 3
        For the last DATA of the answer.
    pc : 20
        The instruction that wants it, for a fault.
    """

    address: ADDRESS_BITS
    rows: ROW_BITS
    elements: LENGTH_BITS
    stride: STRIDE_BITS
    landing: Landing
    nodes: MAX_NODES
    ack: 1
    tag: TAG_BITS
    pc: PC_BITS


class ClearWord(data.Struct):
    """The word of a CLEAR: zeros for `rows` times `words`, of the `lanes` in an entry."""

    rows: ROW_BITS
    words: LOCAL_BITS
    lanes: 4


class KickWord(data.Struct):
    """The word of a START: quarter and length of the program."""

    address: ADDRESS_BITS
    instructions: PC_BITS


class Flit(data.Struct):
    """One flit; see the table of this module.

    Members
    -------
    dest : 16
        The nodes it is for.
    source : 4
        The node that sent it.
    kind : Kind
        Which member of `fields` and of `word` counts.
    fields, word : union
        By lower-case name of the kind; ``raw`` are the bits.
    """

    dest: MAX_NODES
    source: NODE_BITS
    kind: Kind
    fields: data.UnionLayout(
        {
            "raw": FIELD_BITS,
            "data": DataFields,
            "write": WriteFields,
            "post": PostFields,
            "ack": AckFields,
            "credit": CreditFields,
            "kick": KickFields,
            "report": ReportFields,
        }
    )
    word: data.UnionLayout(
        {"raw": WORD_BITS, "read": ReadWord, "clear": ClearWord, "kick": KickWord}
    )
