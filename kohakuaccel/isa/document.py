"""The reference page, written from the records: MyST Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kohakuaccel.isa.composite import Union, place
from kohakuaccel.isa.record import REQUIRED, Check, Format, Operand, Record
from kohakuaccel.isa.types import Field, OperandType


class Section(NamedTuple):
    """A group of instructions: a heading, a paragraph or more, the records."""

    title: str
    introduction: str
    records: tuple[Record, ...]


def document(title: str, introduction: str, sections: Sequence[Section]) -> str:
    """Return the whole page.

    Parameters
    ----------
    title : str
        Its heading.
    introduction : str
        What comes first: MyST.
    sections : sequence of Section
        The instructions; all have one format.
    """
    records = [record for section in sections for record in section.records]
    blocks = [f"# {title}", introduction, *_form(records[0].form), *_unions(records)]
    for section in sections:
        blocks += [f"## {section.title}", section.introduction, _summary(section.records)]
        for record in section.records:
            blocks += _record(record)
    return "\n\n".join(block.strip() for block in blocks) + "\n"


def _form(form: Format) -> list[str]:
    common = place({operand.name: operand.kind for operand in form.common})
    fields = [Field("opcode", 0, form.opcode_width)]
    fields += [Field(f.path, f.offset + form.opcode_width, f.width) for f in common]
    rows = [[_code(field.path), _bits(field.offset, field.width)] for field in fields]
    return [
        "## What every word has",
        (
            f"A word has {form.width} bits; bit 0 is the least significant bit of byte 0. Bits "
            "that are in no field are zero. Fields written `name.part` are parts of one operand."
        ),
        _table(["field", "bits"], rows),
        *(f"`{o.name}`: {o.meaning}. {_capital(o.kind.description)}." for o in form.common),
        "Slots fill from the first one on; an empty slot is all zeros.",
        *_checks(form.checks),
    ]


def _unions(records: Iterable[Record]) -> list[str]:
    """Describe every tagged operand type once."""
    unions: dict[str, Union] = {}
    for record in records:
        for operand in record.operands:
            if isinstance(operand.kind, Union):
                unions[operand.kind.cls.__name__] = operand.kind
    blocks: list[str] = []
    for name, union in unions.items():
        rows: list[list[str]] = []
        for code, tag in enumerate(union.tags):
            fields = union.payload_fields(tag)
            parts = ", ".join(f"{_code(f.path)} {_bits(f.offset, f.width)}" for f in fields)
            rows.append([_code(tag), str(code), parts or "none"])
        blocks += [
            f"## {name}",
            (
                f"{union.width} bits: `kind` in {_bits(0, union.tag_width)}, `payload` in "
                f"{_bits(union.tag_width, union.payload_width)}. The payload bits that a kind does "
                f"not use are zero. Written {_code(union.syntax)}."
            ),
            _table(["kind", "code", "payload bits"], rows),
        ]
    return blocks


def _summary(records: tuple[Record, ...]) -> str:
    rows = [
        [
            f"[{_code(record.name)}](#{record.mnemonic})",
            _code(f"{record.opcode:#04x}"),
            _engine(record),
            record.summary,
        ]
        for record in records
    ]
    return _table(["instruction", "opcode", "executed by", "effect"], rows)


def _engine(record: Record) -> str:
    if any(operand.name == "engine" for operand in record.own):
        return "the engine it names"
    return "front end" if record.engine is None else f"engine {record.engine}"


def _record(record: Record) -> list[str]:
    layout = record.layout
    rows: list[list[str]] = []
    for operand in record.own:
        fields = [f for f in layout if f.path.split(".")[0] == operand.name]
        parts = [f"{f.path.partition('.')[2]} {_bits(f.offset, f.width)}" for f in fields]
        bits = _bits(fields[0].offset, operand.kind.width)
        default = "" if operand.default is REQUIRED else f"; default {_code(_default(operand))}"
        rows.append(
            [
                _code(operand.name),
                f"{bits} ({', '.join(parts)})" if len(fields) > 1 else bits,
                _values(operand.kind),
                operand.meaning + default,
            ]
        )
    blocks = [f"### {record.name}", f"{_capital(record.summary)}. Opcode {record.opcode:#04x}."]
    blocks.append(f"```text\n{_syntax(record)}\n```")
    if rows:
        blocks.append(_table(["operand", "bits", "values", "meaning"], rows))
    return [*blocks, *_checks(record.checks[len(record.form.checks) :]), record.meaning]


def _syntax(record: Record) -> str:
    words = [record.mnemonic]
    for operand in record.own:
        name = "" if operand.name in record.positional else f"{operand.name}="
        text = name + operand.kind.syntax
        words.append(text if operand.default is REQUIRED else f"[{text}]")
    for operand in record.operands:
        if operand.clause:
            words.append(
                f"[;\N{NO-BREAK SPACE}{operand.clause}\N{NO-BREAK SPACE}"
                f"{operand.kind.syntax}\N{NO-BREAK SPACE}...]"
            )
    wrapped = textwrap.fill(
        " ".join(words),
        96,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped.replace("\N{NO-BREAK SPACE}", " ")


def _default(operand: Operand) -> str:
    return operand.kind.write(operand.default)


def _values(kind: OperandType) -> str:
    # A tagged operand has a section of its own.
    return (
        f"[{kind.cls.__name__}](#{kind.cls.__name__.lower()})"
        if isinstance(kind, Union)
        else kind.description
    )


def _checks(checks: tuple[Check, ...]) -> list[str]:
    if not checks:
        return []
    return ["Legal only if:", "\n".join(f"* {check.text} (*{check.name}*)" for check in checks)]


def _bits(offset: int, width: int) -> str:
    return str(offset) if width == 1 else f"{offset + width - 1}:{offset}"


def _code(text: str) -> str:
    return f"`{text}`"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines
    )
