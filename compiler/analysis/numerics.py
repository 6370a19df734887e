"""Warn of numbers that are likely to leave FP16, with the line and a way around."""

from __future__ import annotations

import warnings

from compiler.analysis.sites import Site
from kohakuaccel.ir.nodes import Store, Value
from kohakutpu.lang.hazards import NumericHazard
from kohakutpu.lang.ir import values_of, walk

FP16_MAX = 65504.0
SENTINEL = 1e4  # magnitude from which a number beside a maximum stands for "nothing yet"


def warn_of_hazards(sites: list[Site]) -> None:
    """Issue a `NumericHazard` for each line that has one."""
    seen: set[tuple[str, int]] = set()
    for site in sites:
        store = site.statement if isinstance(site.statement, Store) else None
        for node in (node for value in values_of(site.statement) for node in walk(value)):
            text = _sentinel(node)
            if text is None and store is not None and node is store.value:
                text = _stored(node, store)
            place = node.loc.file, node.loc.line
            if text is not None and place not in seen:
                seen.add(place)
                warnings.warn_explicit(text, NumericHazard, *place)


def _sentinel(node: Value) -> str | None:
    """Say so if a maximum starts from a number that stands for none."""
    if node.op not in ("max", "min"):
        return None
    sign = -1.0 if node.op == "max" else 1.0
    for arg in node.args:
        number = arg.number
        if arg.op == "const" and isinstance(number, float) and number not in (FP16_MAX, -FP16_MAX):
            if SENTINEL <= sign * number < float("inf"):
                word = "maximum" if node.op == "max" else "minimum"
                return (
                    f"{word} against the sentinel {number:g}, which wins where all elements are "
                    f"beyond it: start from {'-' if sign < 0 else ''}Inf or from the first value"
                )
    return None


def _stored(value: Value, store: Store) -> str | None:
    """Say so if what goes into an FP16 buffer is likely to be Inf there."""
    buffer = store.view.buffer
    if buffer.dtype != "fp16":
        return None
    if value.op == "row_sum" and _is_square(value.args[0]):
        return (
            f"a sum of squares is stored as FP16 into `{buffer.name}`, and FP16 ends at 65504: "
            'divide before squaring, `(x * (1 / N)) * x`, or declare it dtype="fp32"'
        )
    factors = [arg.number for arg in value.args if arg.op == "const"] if value.op == "mul" else []
    factors += [value.number] if value.op == "const" else []
    for number in factors:
        if isinstance(number, float) and FP16_MAX < abs(number) < float("inf"):
            return (
                f"{number:g} times what is stored as FP16 into `{buffer.name}` ends beyond 65504 "
                'and becomes Inf: scale it, or declare it dtype="fp32"'
            )
    return None


def _is_square(node: Value) -> bool:
    if node.op != "mul":
        return False
    a, b = node.args
    if a.view is not None and b.view is not None:
        return a.view.buffer is b.view.buffer and a.view.index == b.view.index
    return a is b
