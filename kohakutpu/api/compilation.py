"""Compiled kernels of this process, by everything that decides what a compilation yields."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

from compiler.pipeline import ArgSpec, Compiled, compile_kernel
from kohakutpu.config import Machine
from kohakutpu.lang import Kernel
from kohakutpu.lang.fingerprint import fingerprint

LIMIT = 512  # compilations kept; the least recently used goes first


class Compilations:
    """A bounded cache of compilations.

    Attributes
    ----------
    compiles, hits : int
        Kernels compiled, and times one was found here.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.reset_counters()
        self._known: OrderedDict[Hashable, Compiled] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(
        self,
        kernel: Kernel,
        specs: Sequence[ArgSpec],
        knobs: Mapping[str, Any],
        machine: Machine,
        out_strides: Sequence[tuple[int, ...] | None] = (),
        relax: bool | None = None,
    ) -> Compiled:
        """Return `kernel` compiled for these arguments, knobs, machine and layouts of results.

        An edit of the kernel, of a function it calls or of a variable it reads is another entry.

        Raises
        ------
        KernelError
            If the kernel is wrong.
        CallError
            If the arguments do not fit its parameters.
        """
        chosen = fingerprint(cast("Any", dict(knobs))) if knobs else ""
        key = (kernel.source_key, chosen, tuple(specs), machine.hash, tuple(out_strides), relax)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            self.hits += 1
            return known
        compiled = compile_kernel(
            kernel, list(specs), dict(knobs), machine, out_strides=out_strides, relax=relax
        )
        self.compiles += 1
        self._known[key] = compiled
        while len(self._known) > self.limit:
            self._known.popitem(last=False)
        return compiled

    def clear(self) -> None:
        """Forget every compilation."""
        self._known.clear()

    def reset_counters(self) -> None:
        """Start both counters from zero."""
        self.compiles = 0
        self.hits = 0


COMPILATIONS = Compilations()
