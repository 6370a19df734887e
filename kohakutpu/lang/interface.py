"""What a kernel function declares: its tensors and its knobs, checked when it is decorated."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.nodes import Buffer
from kohakuaccel.source import Location
from kohakutpu.lang.tensors import Tensor


def parameters_of(
    function: Callable[..., None], loc: Location
) -> tuple[tuple[Buffer, ...], dict[str, Any]]:
    """Return the tensors and the knobs of a kernel function, named by its parameters.

    Raises
    ------
    KernelError
        If a parameter declares nothing, a knob has no default, or the tensors cannot go together.
    """
    buffers: list[Buffer] = []
    knobs: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise KernelError(
                f"kernel `{function.__name__}` has a parameter `*{name}` that declares no tensor",
                loc=loc,
                fix="name every tensor, with L.In(...) or L.Out(...) as its default",
            )
        default = parameter.default
        if parameter.kind is parameter.KEYWORD_ONLY:
            if default is parameter.empty or isinstance(default, Tensor):
                raise KernelError(
                    f"knob `{name}` of kernel `{function.__name__}` has no value as its default",
                    loc=loc,
                    fix="give it one, or None to let the compiler choose; tensors come before `*`",
                )
            knobs[name] = default
            continue
        if not isinstance(default, Tensor):
            raise KernelError(
                f"parameter `{name}` of kernel `{function.__name__}` declares no tensor",
                loc=loc,
                fix=f"write `{name}=L.In(...)` or `{name}=L.Out(...)`, or put a knob after `*`",
            )
        buffer = copied(default.buffer)
        buffer.name = name
        buffers.append(buffer)
    _refuse_interface(function.__name__, buffers, loc)
    return tuple(buffers), knobs


def _refuse_interface(name: str, buffers: list[Buffer], loc: Location) -> None:
    outs = [buffer for buffer in buffers if buffer.role == "out"]
    ins = [buffer for buffer in buffers if buffer.role == "in"]
    if not outs:
        raise KernelError(
            f"kernel `{name}` has no result", loc=loc, fix="declare one: `y=L.Out(...)`"
        )
    for out in outs:
        if out.any_rank and not any(buffer.any_rank for buffer in ins):
            raise KernelError(
                f"`{out.name}` is declared L.Out(...), but no argument gives it a shape",
                loc=out.loc,
                fix="declare an argument L.In(...), or name the axes of the result",
            )
        if any(buffer.batched for buffer in ins) and not out.batched:
            raise KernelError(
                f"`{out.name}` has no batch, but the arguments have: "
                "every element of the batch would write the same result",
                loc=out.loc,
                fix=f"declare `{out.name}` with a leading `...`",
                notes=[(b.loc, f"`{b.name}` has a batch") for b in ins if b.batched][:1],
            )
        if out.batched and not any(buffer.batched for buffer in ins):
            raise KernelError(
                f"`{out.name}` has a batch, but no argument gives it one",
                loc=out.loc,
                fix="declare an argument with a leading `...` too",
            )
    if any(b.any_rank for b in buffers) and any(b.batched for b in buffers):
        both = next(b for b in buffers if b.batched)
        raise KernelError(
            f"kernel `{name}` mixes `...` alone with a batch of named axes",
            loc=both.loc,
            fix="use one form for all its tensors",
        )


def copied(buffer: Buffer) -> Buffer:
    """Return a buffer like ``buffer`` with an identity of its own."""
    return Buffer(
        buffer.name,
        buffer.role,
        buffer.shape,
        buffer.dtype,
        buffer.loc,
        buffer.batched,
        buffer.any_rank,
        buffer.value,
    )
