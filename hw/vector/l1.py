"""The L1 of a vector core: banks of words, several readers, two writers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.noc.flit import WORD_BITS


def banks_for(lanes: int) -> int:
    """Return how many words a cycle EXEC wants of an L1, at most: its banks.

    A beat of 4 lanes is half of an FP32 word, and EXEC has two sources in L1 at most: a word a
    cycle. More lanes want two, and four banks let them have two most of the time.
    """
    return 1 if lanes == 4 else 4


class ReadPort(wiring.Signature):
    """A reader, seen from the L1.

    Parameters
    ----------
    address_bits : int
        Of word addresses.

    Members
    -------
    valid, address : In(1), In(address_bits)
        Wants this word; holds both until it is granted.
    granted : Out(1)
        The word comes in the next cycle.
    word : Out(256)
        The word that was granted in the cycle before.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__(
            {
                "valid": In(1),
                "address": In(address_bits),
                "granted": Out(1),
                "word": Out(WORD_BITS),
            }
        )


class WideReadPort(wiring.Signature):
    """A reader of a word of every bank, from ``address`` on, at once; otherwise like `ReadPort`.

    Parameters
    ----------
    address_bits : int
        Of word addresses.
    banks : int
        Of the L1.

    Members
    -------
    wide : In(1)
        All are wanted; otherwise only the first, and the others may be anything.
    words : Out(banks times 256)
        Word ``address + n`` is ``words[n]``.
    """

    def __init__(self, address_bits: int, banks: int) -> None:
        super().__init__(
            {
                "valid": In(1),
                "wide": In(1),
                "address": In(address_bits),
                "granted": Out(1),
                "words": Out(data.ArrayLayout(WORD_BITS, banks)),
            }
        )


class WritePort(wiring.Signature):
    """A writer, seen from the L1.

    Members
    -------
    valid, address, word : In
        Writes this word; holds them until it is granted.
    granted : Out(1)
        Written with the next clock edge.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__(
            {
                "valid": In(1),
                "address": In(address_bits),
                "word": In(WORD_BITS),
                "granted": Out(1),
            }
        )


class VectorL1(wiring.Component):
    """Words in banks by their low address bits; each bank reads one and writes one a cycle.

    Whoever finds his bank taken waits. Of the readers, the lower number goes first; the wide
    reader and the others take turns where they meet. `first` writes whenever it wants. Nobody may
    read a word in the cycle in which it is written: who wants it must wait for the one who writes.

    Parameters
    ----------
    words : int
        Its size.
    readers : int
        Ports for one word.
    banks : int
        A power of two.

    Members
    -------
    reader_0 ... : In(ReadPort), seen from the reader
        Ports for one word.
    wide : WideReadPort
        The port for four.
    first, second : WritePort
        Writers.
    """

    def __init__(self, words: int, readers: int, banks: int) -> None:
        self._rows = -(-words // banks)
        self._readers, self._banks = readers, banks
        self.address_bits = (banks * self._rows - 1).bit_length()
        super().__init__(
            {f"reader_{n}": Out(ReadPort(self.address_bits)) for n in range(readers)}
            | {
                "wide": Out(WideReadPort(self.address_bits, banks)),
                "first": Out(WritePort(self.address_bits)),
                "second": Out(WritePort(self.address_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Settle each bank's reader and writer; route words back."""
        m = Module()
        banks, bits = self._banks, (self._banks - 1).bit_length()
        readers = [getattr(self, f"reader_{n}") for n in range(self._readers)]
        wide = self.wide
        wants_wide = [wide.valid & (wide.wide | (wide.address[:bits] == n)) for n in range(banks)]
        wants = [
            [reader.valid & (reader.address[:bits] == n) for reader in readers]
            for n in range(banks)
        ]
        contested = Cat(wants_wide[n] & Cat(*wants[n]).any() for n in range(banks)).any()
        wide_turn = Signal()
        m.d.comb += wide.granted.eq(wide.valid & (~contested | wide_turn))
        with m.If(contested):
            m.d.sync += wide_turn.eq(~wide_turn)

        grants: list[list[Value]] = [[] for _ in readers]
        outputs = []
        for n in range(banks):
            m.submodules[f"bank_{n}"] = bank = Memory(
                shape=WORD_BITS, depth=self._rows, init=[], attrs={"no_rw_check": 1}
            )
            read, write = bank.read_port(), bank.write_port()
            outputs.append(read.data)
            for_wide = Signal(name=f"for_wide_{n}")
            m.d.comb += for_wide.eq(wants_wide[n] & wide.granted)
            # Bank n has word ``address + (n - address) % banks``.
            carry = wide.address[:bits] > n
            address = wide.address[bits:] + carry
            busy: Value = for_wide
            for reader, wanted, list_ in zip(readers, wants[n], grants, strict=True):
                grant = Signal(name=f"grant_{n}_{len(list_)}")
                m.d.comb += grant.eq(wanted & ~busy)
                list_.append(grant)
                address = Mux(grant, reader.address[bits:], address)
                busy = busy | wanted
            m.d.comb += [read.en.eq(busy), read.addr.eq(address)]

            first = self.first.valid & (self.first.address[:bits] == n)
            second = self.second.valid & (self.second.address[:bits] == n)
            m.d.comb += [
                write.en.eq(first | second),
                write.addr.eq(Mux(first, self.first.address[bits:], self.second.address[bits:])),
                write.data.eq(Mux(first, self.first.word, self.second.word)),
            ]

        same = self.first.address[:bits] == self.second.address[:bits]
        m.d.comb += [
            self.first.granted.eq(self.first.valid),
            self.second.granted.eq(self.second.valid & ~(self.first.valid & same)),
        ]
        for reader, granted in zip(readers, grants, strict=True):
            came_from = Signal(bits, reset_less=True)
            m.d.comb += reader.granted.eq(Cat(*granted).any())
            m.d.sync += came_from.eq(reader.address[:bits])
            m.d.comb += reader.word.eq(_pick(outputs, came_from))
        start = Signal(bits, reset_less=True)
        m.d.sync += start.eq(wide.address[:bits])
        for n in range(banks):
            m.d.comb += wide.words[n].eq(_pick(outputs, (start + Const(n, bits))[:bits]))
        return m


def _pick(words: list[Value], index: Value) -> Value:
    for bit in index:
        words = [Mux(bit, odd, even) for even, odd in zip(words[::2], words[1::2], strict=True)]
    return words[0]
