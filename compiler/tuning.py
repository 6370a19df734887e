"""A search for the knobs of a kernel with the least estimated cycles.

It starts from what the compiler chooses and goes to a neighbour as long as one is better: a knob
up to four steps up or down, or two knobs against each other, as with a tile that becomes wider and
lower. The estimate is that of a plan, which times the programs without data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from compiler.pipeline import ArgSpec, compile_kernel
from kohakuaccel.errors import CallError, KernelError
from kohakuaccel.source import call_site
from kohakutpu.config import Machine
from kohakutpu.lang import Kernel

STEPS = (1, -1, 2, -2, 3, -3, 4, -4)
Knobs = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Trial:
    """One choice of knobs.

    Parameters
    ----------
    knobs : dict
        The ones that were searched.
    cycles : int or None
        The estimate; None where the kernel is refused.
    why : str
        Why it was refused.
    """

    knobs: Mapping[str, Any]
    cycles: int | None
    why: str = ""


@dataclass(eq=False)
class Search:
    """The choices of knobs that were tried for a kernel and arguments of these shapes.

    Parameters
    ----------
    kernel, specs, machine
        As for `compile_kernel`.
    fixed : mapping
        Knobs that keep their value.
    candidates : mapping of str to sequence
        What each of the others may be, in an order in which neighbours are alike.
    tries : int
        How many choices to try at most.

    Attributes
    ----------
    trials : list of Trial
        In the order in which they were tried; the first is the start.
    """

    kernel: Kernel
    specs: Sequence[ArgSpec]
    machine: Machine
    fixed: Mapping[str, Any]
    candidates: Mapping[str, Sequence[Any]]
    tries: int
    trials: list[Trial] = field(default_factory=list[Trial])

    def run(self, start: Mapping[str, Any]) -> None:
        """Search from ``start`` on."""
        best = self._try({name: start[name] for name in self.candidates})
        while True:
            found = best
            for knobs in self._neighbours(best.knobs):
                if len(self.trials) >= self.tries:
                    break
                if not any(trial.knobs == knobs for trial in self.trials):
                    found = min(found, self._try(knobs), key=_order)
            if found is best:
                return
            best = found

    def _try(self, knobs: Knobs) -> Trial:
        try:
            compiled = compile_kernel(
                self.kernel, self.specs, {**self.fixed, **knobs}, self.machine, dump=""
            )
            trial = Trial(knobs, compiled.plan.cycles)
        except KernelError as error:
            trial = Trial(knobs, None, error.message)
        self.trials.append(trial)
        return trial

    def _neighbours(self, knobs: Mapping[str, Any]) -> Iterator[Knobs]:
        names = list(self.candidates)
        moves: list[dict[str, int]] = [{name: by} for by in STEPS for name in names]
        moves += [{up: 1, down: -1} for up, down in permutations(names, 2)]
        for move in moves:
            changed = dict(knobs)
            for name, by in move.items():
                known = self.candidates[name]
                place = known.index(changed[name]) + by
                if not 0 <= place < len(known):
                    break
                changed[name] = known[place]
            else:
                yield changed


def _order(trial: Trial) -> float:
    return float("inf") if trial.cycles is None else trial.cycles


def search(
    kernel: Kernel,
    specs: Sequence[ArgSpec],
    machine: Machine,
    fixed: Mapping[str, Any],
    candidates: Mapping[str, Sequence[Any]] | None = None,
    tries: int = 64,
) -> Search:
    """Try knobs of a kernel for arguments of these shapes.

    Parameters
    ----------
    kernel, specs, machine
        As for `compile_kernel`.
    fixed : mapping
        Knobs that have a value.
    candidates : mapping of str to sequence, optional
        Knobs to search, and what each may be; left out, those that the compiler would choose, from
        a sixteenth to sixteen times of its choice.
    tries : int
        How many choices to try at most.

    Raises
    ------
    CallError
        If there is no knob to search, or one has no candidates.
    KernelError
        If the kernel is refused as it is.
    """
    compiled = compile_kernel(kernel, specs, fixed, machine, dump="")
    sizes = compiled.plan.sizes
    values = {**kernel.knobs, **fixed}
    if candidates is None:
        open_knobs = [name for name, value in values.items() if value is None and name in sizes]
        candidates = {name: sizes_around(sizes[name]) for name in open_knobs}
    for name, known in candidates.items():
        if name not in kernel.knobs or not known:
            raise CallError(
                f"kernel `{kernel.name}` has no knob `{name}`"
                if name not in kernel.knobs
                else f"there is nothing to try for the knob `{name}`",
                loc=call_site(),
                fix=f"search some of {', '.join(kernel.knobs)}, each with the values to try",
            )
    if not candidates:
        raise CallError(
            f"the knobs of kernel `{kernel.name}` all have a value: there is nothing to search",
            loc=call_site(),
            fix="say what to try, as in search={'gm': (1, 2, 4)}",
        )
    start = {
        name: values[name] if values.get(name) is not None else sizes.get(name)
        for name in candidates
    }
    candidates = {
        name: known if start[name] in known else (start[name], *known)
        for name, known in candidates.items()
    }
    found = Search(kernel, specs, machine, fixed, candidates, tries)
    found.run(start)
    return found


def sizes_around(size: int) -> tuple[int, ...]:
    """Return sizes from a sixteenth to sixteen times of one: powers of two, and halfway between."""
    known = {size} | {base << power for base in (1, 3) for power in range(20)}
    return tuple(sorted(n for n in known if size / 16 <= n <= size * 16))
