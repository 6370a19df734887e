"""Pairs of values: which ones an instruction may have, and instructions that cover them all."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from kohakuaccel.isa import Boolean, Enumeration, Instruction, Record, Union
from kohakutpu.isa import Address, Extent
from kohakutpu.isa.operands import FlagType

Choice = Mapping[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]
ATTEMPTS = 400


def choices(record: Record) -> dict[str, tuple[Any, ...]]:
    """Return the operands of a record that choose among a few things, and what they choose from.

    A source or destination chooses its kind, a flag whether a register has a say.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for operand in record.own:
        match operand.kind:
            case Enumeration():
                found[operand.name] = operand.kind.names
            case Boolean():
                found[operand.name] = (False, True)
            case Union():
                found[operand.name] = operand.kind.tags
            case FlagType():
                found[operand.name] = ("off", "on", "register")
            case _:
                pass
    return found


def made(instruction: Instruction) -> dict[str, Any]:
    """Return what an instruction chose."""
    result: dict[str, Any] = {}
    for name in choices(instruction.record):
        value = getattr(instruction, name)
        if isinstance(instruction.record.by_name[name].kind, FlagType):
            value = "register" if value.reg else "on" if value.imm else "off"
        result[name] = getattr(value, "kind", value)
    return result


def pairs_of(choice: Choice) -> set[Pair]:
    """Return the pairs that are in a choice."""
    return set(itertools.combinations(sorted(choice.items()), 2))


def legal(record: Record, choice: Choice) -> bool:
    """Return whether there is an instruction that chooses so."""
    operands: dict[str, Any] = {operand.name: operand.default for operand in record.operands}
    operands |= {name: Extent(0, 0) for name in ("rows", "cols", "k")}
    operands |= {"stride": 0, "red": Address(0, 0), "nodes": int(choice.get("to") == "node")}
    if record.name == "VDRAIN":
        operands |= {"rows": 4, "cols": 4}
    for name, value in choice.items():
        union = isinstance(record.by_name[name].kind, Union)
        operands[name] = SimpleNamespace(kind=value) if union else value
    instruction: Any = SimpleNamespace(**operands)
    return all(check.holds(instruction) for check in record.checks)


@cache
def covering(record: Record) -> tuple[tuple[dict[str, Any], ...], frozenset[Pair]]:
    """Return choices that cover every pair there is, and those pairs.

    The choices are found by chance, always with the same outcome: each covers a pair that none
    before it does, and of some candidates it is the one that covers most.
    """
    chance = random.Random(record.opcode)
    options = choices(record)
    if len(options) == 1:
        ((name, values),) = options.items()
        return tuple({name: value} for value in values), frozenset()
    every: set[Pair] = {
        pair
        for (x, xs), (y, ys) in itertools.combinations(sorted(options.items()), 2)
        for pair in itertools.product(((x, v) for v in xs), ((y, v) for v in ys))
    }
    covered: set[Pair] = set()
    chosen: list[dict[str, Any]] = []
    impossible: set[Pair] = set()
    for pair in sorted(every, key=repr):
        if pair in covered:
            continue
        candidates = _candidates(record, options, dict(pair), chance)
        if not candidates:
            impossible.add(pair)
            continue
        best = max(candidates, key=lambda choice: len(pairs_of(choice) - covered))
        chosen.append(best)
        covered |= pairs_of(best)
    return tuple(chosen), frozenset(every - impossible)


def _candidates(
    record: Record,
    options: Mapping[str, Iterable[Any]],
    fixed: dict[str, Any],
    chance: random.Random,
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for _ in range(ATTEMPTS):
        choice = {name: chance.choice(tuple(values)) for name, values in options.items()} | fixed
        if legal(record, choice):
            found.append(choice)
            if len(found) == 12:
                break
    return found
