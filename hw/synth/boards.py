"""Boards and what their FPGAs hold."""

from collections.abc import Mapping
from dataclasses import dataclass

from hw.synth.ecp5 import ECP5
from hw.synth.family import Family
from hw.synth.gw5a import GW5A


class BoardError(ValueError):
    """No board of that name."""


@dataclass(frozen=True)
class Board:
    """A board that there is a synthesis flow for.

    Parameters
    ----------
    name : str
        What the command line calls it.
    device : str
        The FPGA on it.
    family : Family
        Of the FPGA.
    limits : mapping of str to int
        How many of each of the family's resources the FPGA has.
    budget : mapping of str to int
        How many of them a machine may take, so that placing and routing stays possible.
    platform : str
        Module and class of Amaranth's description of its pins.
    nextpnr : tuple of str
        What nextpnr calls the FPGA.
    clock : int
        Hz of the oscillator.
    frequency : int
        Hz that a system runs at if nobody says otherwise, made from `clock`.
    lights : int
        LEDs that Amaranth's description calls ``led``, as far as there is a use for them.
    loader : str
        What openFPGALoader calls the board.
    """

    name: str
    device: str
    family: Family
    limits: Mapping[str, int]
    budget: Mapping[str, int]
    platform: str
    nextpnr: tuple[str, ...]
    clock: int
    frequency: int
    lights: int
    loader: str


BOARDS = {
    board.name: board
    for board in (
        Board(
            name="ulx3s-85f",
            device="LFE5U-85F",
            family=ECP5,
            limits={"LUT4": 83_640, "FF": 83_640, "MULT18X18D": 156, "DP16KD": 208},
            budget={"LUT4": 65_000, "MULT18X18D": 150, "DP16KD": 200},
            platform="amaranth_boards.ulx3s:ULX3S_85F_Platform",
            nextpnr=("--85k", "--package", "CABGA381", "--speed", "6"),
            clock=25_000_000,
            frequency=25_000_000,
            lights=2,
            loader="ulx3s",
        ),
        Board(
            name="ecpix5-85f",
            device="LFE5UM5G-85F",
            family=ECP5,
            limits={"LUT4": 83_640, "FF": 83_640, "MULT18X18D": 156, "DP16KD": 208},
            budget={"LUT4": 65_000, "MULT18X18D": 150, "DP16KD": 200},
            platform="amaranth_boards.ecpix5:ECPIX585Platform",
            nextpnr=("--um5g-85k", "--package", "CABGA554", "--speed", "8"),
            clock=100_000_000,
            frequency=25_000_000,
            lights=0,
            loader="ecpix5",
        ),
        Board(
            name="tangconsole-138k",
            device="GW5AST-138C",
            family=GW5A,
            limits={"LUT4": 138_240, "FF": 138_240, "MULT12X12": 596, "BSRAM": 340},
            budget={"LUT4": 107_000},
            platform="hw.board.tangconsole:TangConsole138KPlatform",
            nextpnr=("--device", "GW5AST-LV138PG484AC1/I0"),
            clock=50_000_000,
            frequency=25_000_000,
            lights=0,
            loader="tangconsole",
        ),
    )
}


def board(name: str) -> Board:
    """Return a board by name.

    Raises
    ------
    BoardError
        If there is none of that name; the message lists those there are.
    """
    try:
        return BOARDS[name]
    except KeyError:
        raise BoardError(f"no board is called {name!r}; there are {', '.join(BOARDS)}") from None
