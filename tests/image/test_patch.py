"""Relocations: the base of an operand, in quarters, is added to a SETA."""

from collections.abc import Sequence

import pytest

from kohakuaccel.image import Image, ImageError, OperandInfo, Relocation, UnitProgram
from kohakutpu import isa
from kohakutpu.isa import HALT, SETA, Post, Wait

CLUSTER = [SETA(1, 12, waits=(Wait(1),), posts=(Post(0, 1),)), SETA(2, -8), SETA(3, 5), HALT()]
VECTOR = [SETA(15, 0), HALT()]


def words(program: Sequence[isa.Instruction]) -> bytes:
    return b"".join(map(isa.encode, program))


def image(*relocations: Relocation) -> Image:
    return Image(
        "h",
        (UnitProgram(0, "C", words(CLUSTER)), UnitProgram(1, "V", words(VECTOR))),
        operands=(OperandInfo("x", "in", 64), OperandInfo("y", "out", 64)),
        relocations=relocations,
    )


def test_bases_are_added_in_quarters() -> None:
    program = image(Relocation(0, 0, 1), Relocation(0, 1, 0), Relocation(1, 0, 1))
    cluster, vector = isa.patch(program, [64, 0x1_0000_0000])
    expected = [CLUSTER[0].replace(imm=12 + 0x2000_0000), SETA(2, 0), *CLUSTER[2:]]
    assert cluster == words(expected)
    assert vector == words([SETA(15, 0x2000_0000), HALT()])
    assert program.units[0].words == words(CLUSTER)  # the image itself stays as it was


def test_addresses_wrap() -> None:
    top = (1 << 37) - 32
    cluster, _ = isa.patch(image(Relocation(0, 0, 0), Relocation(0, 1, 0)), [top, 0])
    assert isa.decode("C", cluster[:32]).imm == 8
    assert isa.decode("C", cluster[32:64]).imm == (1 << 34) - 12


def test_no_relocations() -> None:
    assert isa.patch(image(), [0, 0]) == [words(CLUSTER), words(VECTOR)]


@pytest.mark.parametrize(
    ("bases", "message"),
    [
        ([0], "2 operands need as many bases, not 1"),
        ([0, 0, 0], "2 operands need as many bases, not 3"),
        ([0, 4], "operand 'y': 0x4 is not the address of a quarter"),
        ([-32, 0], "operand 'x': -0x20 is not the address of a quarter"),
        ([0, 1 << 37], "operand 'y': 0x2000000000 is not the address of a quarter"),
    ],
)
def test_bases_are_checked(bases: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        isa.patch(image(), bases)


def test_only_a_seta_takes_an_address() -> None:
    with pytest.raises(ImageError, match=r"Relocation\(unit=0, pc=3, operand=0\) is at HALT"):
        isa.patch(image(Relocation(0, 3, 0)), [0, 0])
