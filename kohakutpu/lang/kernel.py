"""The ``kernel`` decorator: a Python function becomes something to trace, plan and call.

Calling a kernel needs a compiler and a device, which live above this package. They install
themselves with :func:`set_backend`; a kernel called before that imports `kohakutpu.api`, which
does it.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any, Protocol, overload

from kohakuaccel.errors import CallError, InternalError, KernelError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Buffer, Trace
from kohakuaccel.lang.tracing import Cutting, refuse_nested, tracing
from kohakuaccel.source import Location, call_site, caller
from kohakutpu.lang.fingerprint import fingerprint
from kohakutpu.lang.interface import copied, parameters_of
from kohakutpu.lang.tensors import Tensor


class Backend(Protocol):
    """What runs kernels."""

    def call(self, kernel: Kernel, args: tuple[Any, ...], knobs: dict[str, Any]) -> Any:
        """Run ``kernel`` on ``args``, one for every ``L.In`` in order, and return its results."""
        ...

    def program(self, kernel: Kernel, args: tuple[Any, ...], knobs: dict[str, Any]) -> Any:
        """Compile ``kernel`` for ``args`` without running it and return what would run."""
        ...


_backends: list[Backend] = []


def set_backend(backend: Backend) -> None:
    """Let ``backend`` run kernels from now on."""
    _backends[:] = [backend]


class Kernel:
    """A kernel function with its declarations.

    Attributes
    ----------
    name : str
        The function's name.
    function : callable
        The function itself.
    parameters : tuple of Buffer
        The declarations ``L.In`` and ``L.Out``, in order.
    knobs : dict
        Default of every keyword-only parameter; ``None`` leaves the choice to the compiler.
    loc : Location
        The ``def`` line.
    relax : bool
        Whether a kernel that asks for more than the machine has is run in another way, which the
        plan then says: a grid that carries something gets smaller blocks of rows, a tile goes
        through memory where its epilogue does not fit a vector core. Set it to ``False`` to have
        such a kernel refused.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        code = getattr(function, "__code__", None)
        if code is None:
            raise KernelError(
                f"@kernel makes a kernel of a function, not of {function!r}",
                loc=caller(),
                fix="decorate a function with it",
            )
        self.name = function.__name__
        self.relax = True
        self.function = function
        self.loc = Location(code.co_filename, _def_line(function), function=self.name)
        self.parameters, self.knobs = parameters_of(function, self.loc)
        update_wrapper(self, function)

    @property
    def ins(self) -> tuple[Buffer, ...]:
        """The parameters a call passes."""
        return tuple(buffer for buffer in self.parameters if buffer.role == "in")

    @property
    def outs(self) -> tuple[Buffer, ...]:
        """The parameters a call returns."""
        return tuple(buffer for buffer in self.parameters if buffer.role == "out")

    @property
    def source_key(self) -> str:
        """Digest of the function's code and of everything it refers to.

        An edited helper, closure variable, constant or array changes it.
        """
        return fingerprint(self.function) + ("" if self.relax else " strict")

    def trace(self, **knobs: Any) -> Trace:
        """Run the function once with handles and return what it said.

        Raises
        ------
        KernelError
            If the kernel is wrong.
        CallError
            If there is no such knob.
        """
        return self.trace_with(knobs, {})

    def trace_with(self, knobs: Mapping[str, Any], sizes: Mapping[Cutting, int]) -> Trace:
        """Return a trace as `trace` does, with other sizes of blocks where ``sizes`` has them."""
        values = self.knobs | self._checked_knobs(knobs)
        buffers = [copied(buffer) for buffer in self.parameters]
        trace = Trace(self.name, self.loc, buffers, {}, {})
        with tracing(trace, sizes) as tracer:
            for name, value in values.items():
                values[name] = tracer.knob(name) if value is None else value
            result: object = self.function(*(Tensor(buffer) for buffer in buffers), **values)
        if result is not None:
            raise KernelError(
                f"kernel `{self.name}` returns a value, but its results are its L.Out parameters",
                loc=self.loc,
                fix="write results with `<<=` and return nothing",
            )
        trace.dims.update(_dims(trace))
        return trace

    def bind(
        self, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments in the order of ``ins``, and the knobs.

        Raises
        ------
        CallError
            If an argument is missing, surplus, given twice or unknown.
        """
        loc = call_site()
        names = [buffer.name for buffer in self.ins]
        signature = f"{self.name}({', '.join(names)})"
        if len(args) > len(names):
            outs = ", ".join(f"`{buffer.name}`" for buffer in self.outs)
            raise CallError(
                f"{signature} takes {len(names)} argument{'s' * (len(names) != 1)}, "
                f"but {len(args)} were given",
                loc=loc,
                fix=f"pass {' and '.join(names) or 'none'}; {outs} is allocated and returned",
                notes=[(self.loc, f"`{self.name}` is defined here")],
            )
        bound = dict(zip(names, args, strict=False))
        knobs: dict[str, Any] = {}
        for name, value in keywords.items():
            if name in bound:
                raise CallError(
                    f"{signature} got `{name}` twice", loc=loc, fix="pass it once", notes=()
                )
            if name in names:
                bound[name] = value
            else:
                knobs[name] = value
        missing = [name for name in names if name not in bound]
        if missing:
            raise CallError(
                f"{signature} lacks {' and '.join(f'`{name}`' for name in missing)}",
                loc=loc,
                fix=f"pass {len(names)} tensor{'s' * (len(names) != 1)}",
                notes=[(self.loc, f"`{self.name}` is defined here")],
            )
        return tuple(bound[name] for name in names), self._checked_knobs(knobs)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the kernel and return its result, a tuple where it has several.

        Raises
        ------
        CallError
            If the arguments do not fit the parameters or each other.
        KernelError
            If the kernel is refused, or called by another kernel.
        """
        refuse_nested(self.name)
        tensors, knobs = self.bind(args, keywords)
        return _backend().call(self, tensors, knobs)

    def program(self, *args: Any, **keywords: Any) -> Any:
        """Compile for these arguments without running, and return the program.

        Its ``disassemble()`` shows the instructions under the lines of the kernel, its ``plan``
        what was decided, and its ``image`` is what a device runs.
        """
        tensors, knobs = self.bind(args, keywords)
        return _backend().program(self, tensors, knobs)

    def plan(self, *args: Any, **keywords: Any) -> Any:
        """Compile for these arguments without running, and return the plan."""
        return self.program(*args, **keywords).plan

    def __repr__(self) -> str:
        return f"<kernel {self.name} at {self.loc}>"

    def _checked_knobs(self, knobs: Mapping[str, Any]) -> dict[str, Any]:
        for name in knobs:
            if name not in self.knobs:
                near = difflib.get_close_matches(name, self.knobs, 1)
                known = ", ".join(self.knobs) or "none"
                raise CallError(
                    f"kernel `{self.name}` has no knob `{name}`",
                    loc=call_site(),
                    fix=f"did you mean `{near[0]}`?" if near else f"its knobs are: {known}",
                    notes=[(self.loc, f"`{self.name}` is defined here")],
                )
        return dict(knobs)


@overload
def kernel(function: Callable[..., None], /) -> Kernel: ...
@overload
def kernel() -> Callable[[Callable[..., None]], Kernel]: ...
def kernel(function: Callable[..., None] | None = None, /) -> Any:
    """Make a kernel of a function; used as ``@kernel`` or ``@kernel()``.

    Raises
    ------
    KernelError
        If it is no function, a parameter declares nothing, a knob has no default, or there is no
        result.
    """
    return Kernel if function is None else Kernel(function)


def _dims(trace: Trace) -> dict[str, Symbol]:
    found: dict[str, Symbol] = {}
    for buffer in trace.buffers:
        for extent in buffer.shape:
            for symbol in sorted(extent.symbols(), key=str):
                if symbol.kind == "dim" and found.setdefault(symbol.name, symbol) is not symbol:
                    raise KernelError(
                        f"two different dimensions are called `{symbol.name}`",
                        loc=buffer.loc,
                        fix="make all dimensions of a kernel with one call of dims(...)",
                    )
    return found


def _def_line(function: Callable[..., None]) -> int:
    """Return the line of ``def``, which is not the first where decorators stand above it."""
    code = function.__code__
    first = Location(code.co_filename, code.co_firstlineno)
    while first.text.lstrip().startswith(("@", "#")) and first.line < code.co_firstlineno + 20:
        first = Location(first.file, first.line + 1)
    return first.line


def _backend() -> Backend:
    if not _backends:
        importlib.import_module("kohakutpu.api")
    if not _backends:
        raise InternalError("kohakutpu.api did not install a backend")
    return _backends[0]
