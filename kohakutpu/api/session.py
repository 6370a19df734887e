"""Which device is in use: selection by name, environment and `with`; what it holds."""

from __future__ import annotations

import os
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kohakuaccel.errors import CallError
from kohakuaccel.runtime.arena import Block, OutOfMemory
from kohakuaccel.runtime.device import EngineReport
from kohakuaccel.runtime.launch import Runtime
from kohakuaccel.source import caller
from kohakutpu import devices, isa
from kohakutpu.api.compilation import COMPILATIONS
from kohakutpu.api.deferred import Operation, flush
from kohakutpu.api.stats import Memory, Stats
from kohakutpu.config import ConfigurationError, Machine, preset

if TYPE_CHECKING:
    from kohakutpu.api.array import Array

DEFAULT_MACHINE = "small"
Key = tuple[Any, ...]


class Session:
    """A device in use, what is resident on it, and a context that selects it.

    Attributes
    ----------
    name : str
        What plays the machine.
    machine : Machine
        Its configuration.
    runtime : Runtime
        Its memory and its counters.
    """

    def __init__(self, name: str, machine: Machine, options: dict[str, Any], key: Key) -> None:
        self.name = name
        self.machine = machine
        self.options = options
        self.runtime = Runtime(devices.create(name, machine, options), isa.patch)
        self.waiting: list[weakref.ref[Operation]] = []  # operations that have not run
        self.fused = 0  # operations that ran in another's kernel
        self._key = key
        self._pinned: dict[int, tuple[Array, int]] = {}
        self._previous: list[Session | None] = []  # one for each `with` we are in

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        closed = " (closed)" if self.runtime.closed else ""
        return f"device({self.name!r}, machine={self.machine.name!r}{options}){closed}"

    # --------------------------------------------------------------- context

    def __enter__(self) -> Self:
        """Select this device until the block ends."""
        pending, _Current.pending = _Current.pending, None
        if pending is not None and pending[0] is self:  # `with ktpu.device(...)` itself
            self._previous.append(pending[1])
        else:
            self._previous.append(_Current.session)
            _Current.session = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Select the device that was selected before."""
        _Current.session = self._previous.pop()
        _Current.pending = None

    # ---------------------------------------------------------------- pinning

    @property
    def pinned(self) -> tuple[Array, ...]:
        """The pinned tensors, in the order in which they were pinned."""
        return tuple(tensor for tensor, _ in self._pinned.values())

    def pin(self, tensor: Array) -> None:
        """Keep a tensor's memory although nothing may reference it."""
        held, count = self._pinned.get(id(tensor.storage), (tensor, 0))
        self._pinned[id(tensor.storage)] = (held, count + 1)

    def unpin(self, tensor: Array) -> None:
        """Take back one `pin`.

        Raises
        ------
        CallError
            If the tensor is not pinned.
        """
        held, count = self._pinned.pop(id(tensor.storage), (tensor, 0))
        if not count:
            raise CallError(
                "unpin() of a tensor that is not pinned",
                loc=caller(),
                fix="call pin() first, or leave the unpin() out",
            )
        if count > 1:
            self._pinned[id(tensor.storage)] = (held, count - 1)

    # ---------------------------------------------------------------- waiting

    def flush(self) -> None:
        """Compute every tensor that the program holds and that has not been computed."""
        waiting, self.waiting = self.waiting, []
        flush(waiting)

    def allocate(self, nbytes: int, owner: str) -> Block:
        """Give out memory; if there is none, after what waits has let go of its operands.

        Raises
        ------
        OutOfMemory
            If there is not enough even so.
        """
        try:
            return self.runtime.allocate(nbytes, owner)
        except OutOfMemory:
            if not self.waiting:
                raise
        self.flush()
        return self.runtime.allocate(nbytes, owner)

    # --------------------------------------------------------------- counters

    def stats(self) -> Stats:
        """Return the counters as they are when what waits has been computed."""
        self.flush()
        runtime, totals = self.runtime, self.runtime.totals
        runtime.collect()
        arena = runtime.arena
        return Stats(
            device=self.name,
            machine=self.machine.name,
            dispatches=totals.dispatches,
            instructions=totals.instructions,
            cycles=totals.cycles,
            macs=totals.macs,
            memory_read=totals.memory_read,
            memory_written=totals.memory_written,
            noc=totals.noc,
            engines={
                name: EngineReport(engine.busy, engine.stalled)
                for name, engine in totals.engines.items()
            },
            memory=Memory(
                live=arena.live - runtime.resident_bytes,
                used=arena.live,
                peak=arena.peak,
                pinned=sum(tensor.nbytes for tensor, _ in self._pinned.values()),
                capacity=arena.capacity,
            ),
            fused=self.fused,
            compiles=COMPILATIONS.compiles,
            cache_hits=COMPILATIONS.hits,
        )

    def reset_stats(self) -> None:
        """Start every counter again from zero, and the peak from what is used now.

        What waits is computed first: it belongs to what has been.
        """
        self.flush()
        self.fused = 0
        self.runtime.collect()
        self.runtime.totals.clear()
        self.runtime.arena.reset_peak()
        COMPILATIONS.reset_counters()

    def empty_cache(self) -> None:
        """Give back device memory that only speeds things up: programs and their constants."""
        self.runtime.collect()
        self.runtime.evict()

    def sync(self) -> None:
        """Compute what waits; return when everything submitted has run."""
        self.flush()
        self.runtime.require_open()
        self.runtime.collect()

    def close(self) -> None:
        """Close the device; its tensors can no longer be used."""
        self.runtime.close()
        self._pinned.clear()
        self.waiting.clear()
        _Current.opened.pop(self._key, None)
        if _Current.session is self:
            _Current.session = None


class _Current:
    """The selected device, and every one that is open, by what was asked for.

    ``pending`` is the session that `device` selected last and the one it replaced: a ``with``
    around that call goes back to the latter.
    """

    session: Session | None = None
    pending: tuple[Session, Session | None] | None = None
    opened: dict[Key, Session] = {}  # noqa: RUF012


def current() -> Session:
    """Return the selected device; the first call opens the default one."""
    return _Current.session or device()


def device(
    name: str | None = None, *, machine: str | Machine | None = None, **options: Any
) -> Session:
    """Select a device for the tensors made from now on, or return the selected one.

    As a statement it stays selected; in ``with ktpu.device(...):`` until the block ends. Asking
    for the same device again returns the same one, so tensors of both places go together.

    Parameters
    ----------
    name : str, optional
        What plays the machine; default ``KTPU_DEVICE``, else ``golden``.
    machine : str or Machine, optional
        A preset's name or a configuration; default ``KTPU_MACHINE``, else ``small``.
    **options
        The device's own; ``golden`` takes ``poison`` (read what nobody wrote: an error) and
        ``seed`` (interleave the engines by chance), default ``KTPU_POISON`` and ``KTPU_SEED``.

    Returns
    -------
    Session
        The device.

    Raises
    ------
    CallError
        If there is no such device, machine or option; the message lists those there are.
    """
    if name is None and machine is None and not options and _Current.session is not None:
        return _Current.session
    name = name or os.environ.get("KTPU_DEVICE") or devices.DEFAULT
    options = devices.check_options(name, options)
    chosen = find_machine(machine or os.environ.get("KTPU_MACHINE") or DEFAULT_MACHINE)
    key: Key = (name, chosen.name, chosen.hash, *sorted(options.items()))
    session = _Current.opened.get(key)
    if session is None:
        session = _Current.opened[key] = Session(name, chosen, options, key)
    _Current.pending = (session, _Current.session)
    _Current.session = session
    return session


def find_machine(machine: str | Machine) -> Machine:
    """Return a machine by its name, or as it is.

    Raises
    ------
    CallError
        If no preset has that name.
    """
    if isinstance(machine, Machine):
        return machine
    try:
        return preset(machine)
    except ConfigurationError as error:
        raise CallError(
            str(error), loc=caller(), fix="name one of them in KTPU_MACHINE or machine="
        ) from None
