"""``ktpu.tune``: the knobs of a kernel that are fastest for certain arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler import tuning
from compiler.pipeline import ArgSpec
from compiler.report import table
from compiler.tuning import Trial
from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api.array import common_device
from kohakutpu.api.creation import tensor
from kohakutpu.api.dispatch import accepted, strides_of
from kohakutpu.api.profile import Profile
from kohakutpu.api.session import Session, device
from kohakutpu.api.tensor import Tensor
from kohakutpu.config import Machine
from kohakutpu.lang import Kernel

MEASURED = 4  # of the choices with the best estimates, how many run on a device


@dataclass(frozen=True)
class Candidate:
    """A choice of knobs, its estimated cycles and, if it has run, its measured ones."""

    knobs: Mapping[str, Any]
    estimate: int
    measured: int | None = None


@dataclass(frozen=True)
class Tuning:
    """What a search found.

    Attributes
    ----------
    kernel : str
        Its name.
    candidates : tuple of Candidate
        The fastest first.
    start : Candidate
        What the compiler chooses, or what the knobs are by default.
    refused : tuple of Trial
        Choices that the machine has no room for, or that make no kernel, and why.
    """

    kernel: str
    candidates: tuple[Candidate, ...]
    start: Candidate
    refused: tuple[Trial, ...]

    @property
    def knobs(self) -> dict[str, Any]:
        """The fastest choice, for a call: ``kernel(x, **tuning.knobs)``."""
        return dict(self.candidates[0].knobs)

    def pretty(self) -> str:
        """Return a table of the ten fastest choices, and of the start."""
        names = list(self.start.knobs)
        shown = list(self.candidates[:10])
        if self.start not in shown:
            shown.append(self.start)
        rows = [
            (
                *(str(one.knobs[name]) for name in names),
                f"{one.estimate:,}",
                "" if one.measured is None else f"{one.measured:,}",
                "start" if one is self.start else "",
            )
            for one in shown
        ]
        lines = table((*names, "estimate", "measured", ""), rows)
        tried = len(self.candidates) + len(self.refused)
        lines.append(f"{self.kernel}: {tried} choices tried, {len(self.refused)} of them refused")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.pretty()


def tune(
    kernel: Kernel,
    *args: Tensor,
    search: Mapping[str, Sequence[Any]] | None = None,
    tries: int = 64,
    measure: str | Session | None = None,
    **knobs: Any,
) -> Tuning:
    """Search knobs that make a kernel fast for these arguments.

    The timing model decides, which needs no run: it is the estimate of ``kernel.plan``. With
    `measure` the choices with the best estimates, and the start, run on a device, whose cycles
    decide.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    *args : Tensor
        Arguments, as in a call.
    search : mapping of str to sequence, optional
        Knobs to search, and what to try for each; left out, those that the compiler would choose.
        The bits of a result do not depend on these.
    tries : int
        How many choices to try at most.
    measure : str or Session, optional
        Where to run: ``"rtl"``, ``"golden"``, or a device. It gets copies of the arguments.
    **knobs
        Knobs that have a value, and arguments by name.

    Returns
    -------
    Tuning
        Its ``knobs`` are for a call.

    Raises
    ------
    CallError
        If there is no knob to search, or the arguments do not fit.
    KernelError
        If the kernel is refused as it is.
    """
    operands, fixed = kernel.bind(args, knobs)
    session = common_device(kernel.name, operands)
    taken: list[Tensor] = [accepted(kernel, x) for x in operands]
    specs = [ArgSpec(x.shape, x.format, strides_of(x)) for x in taken]
    found = tuning.search(kernel, specs, session.machine, fixed, search, tries)
    timed = [trial for trial in found.trials if trial.cycles is not None]
    cycles = {id(trial): trial.cycles or 0 for trial in timed}
    ranked = sorted(timed, key=lambda trial: cycles[id(trial)])
    start = timed[0]
    measured: dict[int, int] = {}
    if measure is not None:
        chosen = list(dict.fromkeys((*ranked[:MEASURED], start)))
        runs = [{**fixed, **trial.knobs} for trial in chosen]
        counts = _measured(kernel, taken, runs, measure, session)
        measured = {id(trial): count for trial, count in zip(chosen, counts, strict=True)}
    every = {
        id(trial): Candidate(trial.knobs, cycles[id(trial)], measured.get(id(trial)))
        for trial in ranked
    }

    def order(candidate: Candidate) -> tuple[bool, int]:
        return candidate.measured is None, candidate.measured or candidate.estimate

    refused = tuple(trial for trial in found.trials if trial.cycles is None)
    return Tuning(kernel.name, tuple(sorted(every.values(), key=order)), every[id(start)], refused)


def opened(name: str, machine: Machine) -> Session:
    """Return a device without selecting it."""
    with device(name, machine=machine) as found:
        return found


def _measured(
    kernel: Kernel,
    args: Sequence[Tensor],
    runs: Sequence[Mapping[str, Any]],
    measure: str | Session,
    session: Session,
) -> list[int]:
    """Return the cycles of a kernel on another device, for each choice of knobs."""
    if isinstance(measure, Session) and measure.machine.hash != session.machine.hash:
        raise CallError(
            f"the arguments are on machine {session.machine.name}, and {measure!r} is another",
            loc=caller(),
            fix="measure on a device of the same machine",
        )
    other = measure if isinstance(measure, Session) else opened(measure, session.machine)
    with other:
        copies = [tensor(x.numpy(), dtype=x.format) for x in args]
        counts: list[int] = []
        for knobs in runs:
            with Profile(other) as seen:
                kernel(*copies, **knobs)
            counts.append(seen.cycles)
    return counts
