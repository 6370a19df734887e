"""The L1 of a vector core: four banks of words, several readers, two writers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.noc.flit import WORD_BITS

BANKS = 4
BANK_BITS = (BANKS - 1).bit_length()


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
    """A reader of four words from ``address`` on at once; otherwise like `ReadPort`.

    Members
    -------
    wide : In(1)
        All four are wanted; otherwise only the first, and the others may be anything.
    words : Out(4 times 256)
        Word ``address + n`` is ``words[n]``.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__(
            {
                "valid": In(1),
                "wide": In(1),
                "address": In(address_bits),
                "granted": Out(1),
                "words": Out(data.ArrayLayout(WORD_BITS, BANKS)),
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
    """Words in four banks by their low address bits; each bank reads one and writes one a cycle.

    Whoever finds his bank taken waits. Of the readers, the lower number goes first; the wide
    reader and the others take turns where they meet. `first` writes whenever it wants.

    Parameters
    ----------
    words : int
        Its size.
    readers : int
        Ports for one word.

    Members
    -------
    reader_0 ... : In(ReadPort), seen from the reader
        Ports for one word.
    wide : WideReadPort
        The port for four.
    first, second : WritePort
        Writers.
    """

    def __init__(self, words: int, readers: int) -> None:
        self._rows = -(-words // BANKS)
        self._readers = readers
        self.address_bits = (BANKS * self._rows - 1).bit_length()
        super().__init__(
            {f"reader_{n}": Out(ReadPort(self.address_bits)) for n in range(readers)}
            | {
                "wide": Out(WideReadPort(self.address_bits)),
                "first": Out(WritePort(self.address_bits)),
                "second": Out(WritePort(self.address_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Settle each bank's reader and writer; route words back."""
        m = Module()
        readers = [getattr(self, f"reader_{n}") for n in range(self._readers)]
        wide = self.wide
        wants_wide = [
            wide.valid & (wide.wide | (wide.address[:BANK_BITS] == n)) for n in range(BANKS)
        ]
        wants = [
            [reader.valid & (reader.address[:BANK_BITS] == n) for reader in readers]
            for n in range(BANKS)
        ]
        contested = Cat(wants_wide[n] & Cat(*wants[n]).any() for n in range(BANKS)).any()
        wide_turn = Signal()
        m.d.comb += wide.granted.eq(wide.valid & (~contested | wide_turn))
        with m.If(contested):
            m.d.sync += wide_turn.eq(~wide_turn)

        grants: list[list[Value]] = [[] for _ in readers]
        outputs = []
        for n in range(BANKS):
            m.submodules[f"bank_{n}"] = bank = Memory(shape=WORD_BITS, depth=self._rows, init=[])
            read, write = bank.read_port(), bank.write_port()
            outputs.append(read.data)
            for_wide = Signal(name=f"for_wide_{n}")
            m.d.comb += for_wide.eq(wants_wide[n] & wide.granted)
            # Bank n has word ``address + (n - address) % 4``.
            carry = wide.address[:BANK_BITS] > n
            address = wide.address[BANK_BITS:] + carry
            busy: Value = for_wide
            for reader, wanted, list_ in zip(readers, wants[n], grants, strict=True):
                grant = Signal(name=f"grant_{n}_{len(list_)}")
                m.d.comb += grant.eq(wanted & ~busy)
                list_.append(grant)
                address = Mux(grant, reader.address[BANK_BITS:], address)
                busy = busy | wanted
            m.d.comb += [read.en.eq(busy), read.addr.eq(address)]

            first = self.first.valid & (self.first.address[:BANK_BITS] == n)
            second = self.second.valid & (self.second.address[:BANK_BITS] == n)
            m.d.comb += [
                write.en.eq(first | second),
                write.addr.eq(
                    Mux(first, self.first.address[BANK_BITS:], self.second.address[BANK_BITS:])
                ),
                write.data.eq(Mux(first, self.first.word, self.second.word)),
            ]

        same = self.first.address[:BANK_BITS] == self.second.address[:BANK_BITS]
        m.d.comb += [
            self.first.granted.eq(self.first.valid),
            self.second.granted.eq(self.second.valid & ~(self.first.valid & same)),
        ]
        for reader, granted in zip(readers, grants, strict=True):
            came_from = Signal(BANK_BITS, reset_less=True)
            m.d.comb += reader.granted.eq(Cat(*granted).any())
            m.d.sync += came_from.eq(reader.address[:BANK_BITS])
            m.d.comb += reader.word.eq(_pick(outputs, came_from))
        start = Signal(BANK_BITS, reset_less=True)
        m.d.sync += start.eq(wide.address[:BANK_BITS])
        for n in range(BANKS):
            m.d.comb += wide.words[n].eq(_pick(outputs, (start + Const(n, BANK_BITS))[:BANK_BITS]))
        return m


def _pick(words: list[Value], index: Value) -> Value:
    return Mux(index[1], Mux(index[0], words[3], words[2]), Mux(index[0], words[1], words[0]))
