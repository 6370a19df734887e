"""The operand types of this machine's instructions and what every word has in common."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kohakuaccel.isa import (
    Boolean,
    Check,
    Format,
    Operand,
    OperandType,
    Slots,
    Struct,
    Unfit,
    Union,
    Unsigned,
    read_integer,
)
from kohakutpu.config import ADDRESS_BITS, ADDRESS_REGISTERS, MAX_NODES, SEMAPHORES, WORD_BYTES
from kohakutpu.isa.floats import read_fp32, write_fp32
from kohakutpu.isa.values import Address, Destination, Extent, Flag, Post, Source, Wait

LOCAL_BITS = 14  # of an address or a row stride inside a unit
REGISTER_BITS = (ADDRESS_REGISTERS - 1).bit_length()
NODE_BITS = (MAX_NODES - 1).bit_length()
SEMAPHORE_BITS = (SEMAPHORES - 1).bit_length()

REGISTER = Unsigned(REGISTER_BITS, prefix="a")


class AddressType(Struct):
    """An `Address`, written ``a3+16``, ``a3`` or ``16``."""

    def __init__(self, width: int) -> None:
        super().__init__(Address, reg=REGISTER, imm=Unsigned(width))

    def write(self, value: Address) -> str:
        """See `OperandType.write`."""
        return f"a{value.reg}+{value.imm}" if value.reg else str(value.imm)

    def read(self, text: str) -> Address:
        """See `OperandType.read`."""
        if not text.startswith("a"):
            return Address(0, read_integer(text))
        register, plus, imm = text.partition("+")
        return Address(REGISTER.read(register), read_integer(imm) if plus else 0)

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        return "aN+N|N"


class ExtentType(Struct):
    """An `Extent`, written ``100-a3`` or ``100``."""

    def __init__(self) -> None:
        super().__init__(Extent, limit=Unsigned(24), reg=REGISTER)

    def write(self, value: Extent) -> str:
        """See `OperandType.write`."""
        return f"{value.limit}-a{value.reg}" if value.reg else str(value.limit)

    def read(self, text: str) -> Extent:
        """See `OperandType.read`."""
        limit, minus, register = text.partition("-")
        return Extent(read_integer(limit), REGISTER.read(register) if minus else 0)

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        return "N-aN|N"


class FlagType(Struct):
    """A `Flag`, written ``false``, ``true``, ``a3`` or, always on all the same, ``true|a3``."""

    def __init__(self) -> None:
        super().__init__(Flag, imm=Boolean(), reg=REGISTER)

    def write(self, value: Flag) -> str:
        """See `OperandType.write`."""
        imm = "true" if value.imm else "false"
        if not value.reg:
            return imm
        return f"true|a{value.reg}" if value.imm else f"a{value.reg}"

    def read(self, text: str) -> Flag:
        """See `OperandType.read`."""
        imm, bar, register = text.partition("|")
        if imm.startswith("a") and not bar:
            return Flag(False, REGISTER.read(imm))
        return Flag(Boolean().read(imm), REGISTER.read(register) if bar else 0)

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        return "true|false|aN"


class WaitType(Struct):
    """A `Wait`, written ``s3>=2``."""

    def __init__(self) -> None:
        super().__init__(Wait, semaphore=Unsigned(SEMAPHORE_BITS, prefix="s"), count=Unsigned(4, 1))

    def write(self, value: Wait) -> str:
        """See `OperandType.write`."""
        return f"s{value.semaphore}>={value.count}"

    def read(self, text: str) -> Wait:
        """See `OperandType.read`."""
        semaphore, relation, count = text.partition(">=")
        if not relation:
            raise Unfit(self.syntax, text)
        return Wait(self.parts["semaphore"].read(semaphore), read_integer(count))

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        return "sN>=N"


class PostType(Struct):
    """A `Post`, written ``n2:s3``."""

    def __init__(self) -> None:
        super().__init__(
            Post,
            node=Unsigned(NODE_BITS, prefix="n"),
            semaphore=Unsigned(SEMAPHORE_BITS, prefix="s"),
        )

    def write(self, value: Post) -> str:
        """See `OperandType.write`."""
        return f"n{value.node}:s{value.semaphore}"

    def read(self, text: str) -> Post:
        """See `OperandType.read`."""
        node, colon, semaphore = text.partition(":")
        if not colon:
            raise Unfit(self.syntax, text)
        return Post(self.parts["node"].read(node), self.parts["semaphore"].read(semaphore))

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        return "nN:sN"


MEMORY = AddressType(ADDRESS_BITS)
LOCAL = AddressType(LOCAL_BITS)
STRIDE = Unsigned(24)
LOCAL_STRIDE = Unsigned(LOCAL_BITS)
EXTENT = ExtentType()
FLAG = FlagType()

_WINDOW = {"base": LOCAL, "stride": LOCAL_STRIDE}
_WINDOW_TEXT = re.compile(r"(?P<kind>[a-z0-9]+)\[(?P<base>[^\[\]]*)\](?:/(?P<stride>.*))?")


class WindowUnion(Union):
    """A `Source` or `Destination`: ``none``, ``0.5``, ``reg[a3+16]/4``, ``row[12]``."""

    def write(self, value: Any) -> str:
        """See `OperandType.write`."""
        parts = self.variants[value.kind]
        if "bits" in parts:
            return write_fp32(value.bits)
        if "base" not in parts:
            return value.kind
        stride = f"/{value.stride}" if "stride" in parts else ""
        return f"{value.kind}[{LOCAL.write(value.base)}]{stride}"

    def read(self, text: str) -> Any:
        """See `OperandType.read`."""
        if text == "none":
            return self.cls("none")
        if "imm" in self.variants:
            bits = read_fp32(text)
            if bits is not None:
                return self.cls("imm", bits)
        match = _WINDOW_TEXT.fullmatch(text)
        parts: Mapping[str, OperandType] = self.variants.get(match["kind"], {}) if match else {}
        if (
            match is None
            or "base" not in parts
            or (match["stride"] is not None) != ("stride" in parts)
        ):
            raise Unfit(self.syntax, text)
        strides = {} if match["stride"] is None else {"stride": read_integer(match["stride"])}
        return self.cls(match["kind"], base=LOCAL.read(match["base"]), **strides)

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        immediate = "F|" if "imm" in self.variants else ""
        row = "|row[ADDRESS]" if "row" in self.variants else ""
        return f"none|{immediate}reg[ADDRESS]/N|l1h[ADDRESS]/N|l1f[ADDRESS]/N{row}"


SOURCE = WindowUnion(
    Source,
    {
        "none": {},
        "imm": {"bits": Unsigned(32)},
        "reg": _WINDOW,
        "l1h": _WINDOW,
        "l1f": _WINDOW,
        "row": {"base": LOCAL},
    },
)
DESTINATION = WindowUnion(Destination, {"none": {}, "reg": _WINDOW, "l1h": _WINDOW, "l1f": _WINDOW})

WORD = Format(
    width=8 * WORD_BYTES,
    opcode_width=8,
    common=(
        Operand(
            "waits",
            Slots(WaitType(), 2),
            "semaphores of this unit to wait for and to subtract from, both at once",
            default=(),
            clause="wait",
        ),
        Operand(
            "posts",
            Slots(PostType(), 2),
            "semaphores, of this or of another node, to add one to when finished",
            default=(),
            clause="post",
        ),
    ),
    checks=(
        Check(
            "two semaphores",
            "two waits name different semaphores",
            lambda i: len(i.waits) < 2 or i.waits[0].semaphore != i.waits[1].semaphore,
        ),
    ),
)
