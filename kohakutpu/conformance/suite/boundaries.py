"""Every field of every engine instruction at each of its edges, and every word that is none."""

from __future__ import annotations

from collections.abc import Iterator

from kohakuaccel.isa import IllegalInstruction, Instruction, Union
from kohakutpu import isa
from kohakutpu.config import Machine
from kohakutpu.conformance.case import Case, Trace
from kohakutpu.conformance.draft import Draft
from kohakutpu.conformance.points import Field, Part, fields
from kohakutpu.conformance.reference import Undefined
from kohakutpu.conformance.suite.contexts import CONTEXTS, TEMPLATES, Context
from kohakutpu.isa import SETA, Post, Wait

Result = tuple[Case, Trace]
SLOTS = ("waits", "posts")


def cases(machine: Machine) -> Iterator[Result]:
    """Yield a case for each context, field and edge."""
    for context in CONTEXTS:
        for field in fields(context.record):
            operand = field.path.split(".")[0]
            if context.fields and operand not in context.fields:
                continue
            for value in field.values:
                case = at_edge(machine, context, field, value)
                if case is not None:
                    yield case


def at_edge(machine: Machine, context: Context, field: Field, value: int) -> Result | None:
    """Return the case of a context with one field changed.

    None for semaphores that exist, which need somebody to post, and for a window so large that it
    holds what nobody wrote: `sizes` has those.
    """
    draft = Draft(machine, f"field/{context.name}/{field.label(value)}")
    node = context.node(machine)
    base = context.setup(draft, node)
    word = changed(base, field, value)
    if field.path.split(".")[0] in SLOTS and _is_instruction(context.kind, word):
        posts = isa.decode(context.kind, word).posts
        if all(machine_has(machine, post.node) for post in posts):
            return None
    prepare_registers(draft, node, context, word)
    try:
        return draft.examine(node, [word], _engine(base))
    except Undefined:
        return None


def _engine(instruction: Instruction) -> int:
    assert instruction.engine is not None, instruction
    return instruction.engine


def machine_has(machine: Machine, node: int) -> bool:
    """Return whether a node is a unit."""
    return any(n.id == node and n.kind in "CV" for n in machine.nodes)


def _is_instruction(kind: str, word: bytes) -> bool:
    try:
        isa.decode(kind, word)
    except IllegalInstruction:
        return False
    return True


def changed(base: Instruction, field: Field, value: int) -> bytes:
    """Return the word of an instruction with one field set to a value."""
    operand, *rest = field.path.split(".")
    word = int.from_bytes(isa.encode(base), "little")
    kind = base.record.by_name[operand].kind if operand in base.record.by_name else None
    if isinstance(kind, Union):
        tag = rest[0]
        if tag == "kind":
            tag = kind.tags[value] if value < len(kind.tags) else ""
        template = TEMPLATES[operand].get(tag)
        if template is not None:
            first = next(f.offset for f in fields(base.record) if f.path == f"{operand}.kind")
            word = Part(first, kind.width, kind.encode(template)).put(word)
    elif operand in SLOTS and rest[0] == "1" and field.when is not None and field.when.value:
        first = Wait(5, 1) if operand == "waits" else Post(0, 5)
        word = int.from_bytes(isa.encode(base.replace(**{operand: (first,)})), "little")
    if field.when is not None:
        word = field.when.put(word)
    return field.part(value).put(word).to_bytes(len(isa.encode(base)), "little")


def prepare_registers(draft: Draft, node: int, context: Context, word: bytes) -> None:
    """Set the address registers that a word names."""
    number = int.from_bytes(word, "little")
    used: set[int] = set()
    for field in fields(context.record):
        there = field.when is None or field.when.found(number)
        if field.path.endswith(".reg") and there:
            used.add(number >> field.offset & ((1 << field.width) - 1))
    for register in sorted(used - {0}):
        draft.program(node).code.append(SETA(rd=register, imm=context.step * register))
