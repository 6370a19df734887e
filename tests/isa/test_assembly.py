"""Assembly: there and back both ways, what people may write, what errors say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohakutpu import isa
from kohakutpu.isa import (
    ADDA,
    END,
    EXEC,
    FILL,
    GEMM,
    HALT,
    LOOP,
    SETA,
    SYNC,
    Address,
    AssemblyError,
    Destination,
    Extent,
    Flag,
    Post,
    Source,
    Wait,
)
from tests.isa.strategies import programs


@pytest.mark.parametrize("kind", ["C", "V"])
@settings(max_examples=100)
@given(data=st.data())
def test_there_and_back(kind: str, data: st.DataObject) -> None:
    program = data.draw(programs(kind))
    text = isa.disassemble(program)
    assembled = isa.assemble(text, kind)
    assert assembled == program
    assert list(map(isa.encode, assembled)) == list(map(isa.encode, program))
    assert isa.disassemble(assembled) == text
    assert text.isascii()
    assert text.count("\n") == len(program)


CLUSTER = """\
seta a1 4096
adda a2 a1 -64 modulo=512
loop a3+16
  loop 2
    fill A l1=a5+3 l1_stride=8 mem=a2+100 stride=16 g=4 nk=2 rows=100-a3 k=64 mode=fp16 \
transpose=true nodes={0,2} ; wait s1>=2 ; post n2:s3 n1:s4
    gemm a=0 b=16 acc=a4+0 gm=4 gn=8 nk=2 a_stride=2 b_stride=2 accumulate=a3
  end
end ; wait s31>=15 s0>=1
sync 2 ; post n15:s31
drain acc=0 gm=1 gn=1 to=node mem=8 stride=1 rows=4 cols=4 format=fp16 order=row nodes={5} \
buffer=l1b residual=true
barrier
halt
"""

VECTOR = """\
vfill mem=a1+0 stride=0 l1=0 l1_stride=4 rows=8 row_extent=8-a2 cols=64 col_extent=64 format=fp32
exec rows=8 cols=64 f=mac a=l1f[a1+2]/8 b=0.5 c=row[3] unary=exp2 dst=reg[16]/4 reduce=sum red=a2+7
exec rows=1 cols=1 f=select a=-0.0 b=0f7FC00001 c=nan dst=none
vdrain l1=0 l1_stride=4 rows=8 row_extent=8 cols=64 col_extent=64 format=fp16 order=tile to=memory \
mem=a1+2 stride=4
"""


def test_pinned_text() -> None:
    assert isa.disassemble(isa.assemble(CLUSTER, "C")) == CLUSTER
    assert isa.disassemble(isa.assemble(VECTOR, "V")) == VECTOR
    program = isa.assemble(CLUSTER, "C")
    assert program[0] == SETA(1, 4096)
    assert program[1] == ADDA(2, 1, (1 << 34) - 64, 512)
    assert program[2] == LOOP(Address(3, 16))
    assert program[4] == FILL(
        buffer="A",
        l1=Address(5, 3),
        l1_stride=8,
        mem=Address(2, 100),
        stride=16,
        g=4,
        nk=2,
        rows=Extent(100, 3),
        k=Extent(64, 0),
        mode="fp16",
        transpose=True,
        nodes=0b101,
        waits=(Wait(1, 2),),
        posts=(Post(2, 3), Post(1, 4)),
    )
    assert program[5].accumulate == Flag(False, 3)
    assert program[7] == END(waits=(Wait(31, 15), Wait(0, 1)))
    assert program[8] == SYNC(2, posts=(Post(15, 31),))
    vector = isa.assemble(VECTOR, "V")
    assert vector[1] == EXEC(
        rows=8,
        cols=64,
        f="mac",
        a=Source.l1f(Address(1, 2), 8),
        b=Source.imm(0.5),
        c=Source.row(Address(0, 3)),
        unary="exp2",
        dst=Destination.reg(Address(0, 16), 4),
        reduce="sum",
        red=Address(2, 7),
    )
    assert [vector[2].a.bits, vector[2].b.bits, vector[2].c.bits] == [
        0x80000000,
        0x7FC00001,
        0x7FC00000,
    ]


@pytest.mark.parametrize(
    ("text", "instruction"),
    [
        ("halt", HALT()),
        ("\thalt  # done", HALT()),
        ("halt//done", HALT()),
        ("halt\r", HALT()),
        ("halt;wait s1>=1;post n0:s0", HALT(waits=(Wait(1),), posts=(Post(0, 0),))),
        ("halt ; post n0:s0 ; wait s1>=1", HALT(waits=(Wait(1),), posts=(Post(0, 0),))),
        ("seta rd=a1 imm=0x10", SETA(1, 16)),
        ("seta imm=-0b11 a1", SETA(1, -3)),
        ("seta a1 imm=5", SETA(1, 5)),
        ("loop a3", LOOP(Address(3, 0))),
        ("loop a0+7", LOOP(Address(0, 7))),
        ("adda a1 a0 1 modulo=0", ADDA(1, 0, 1)),
    ],
)
def test_what_may_be_written(text: str, instruction: isa.Instruction) -> None:
    assert isa.assemble(text, "C") == [instruction]


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("true", Flag(True, 0)),
        ("false", Flag(False, 0)),
        ("a2", Flag(False, 2)),
        ("true|a2", Flag(True, 2)),
    ],
)
def test_flags(text: str, flag: Flag) -> None:
    head = "gemm a=0 b=0 acc=0 gm=1 gn=1 nk=1 a_stride=0 b_stride=0 accumulate="
    (gemm,) = isa.assemble(head + text, "C")
    assert gemm.accumulate == flag
    assert gemm.record is GEMM
    assert isa.disassemble([gemm]) == head + text + "\n"


def test_empty_lines_and_comments() -> None:
    assert isa.assemble("", "C") == []
    assert isa.assemble("\n  \n# nothing\n   // nothing\n", "C") == []


def test_comments_go_before_their_instruction() -> None:
    program = [LOOP(Address(0, 2)), HALT(), END()]
    text = isa.disassemble(program, {1: "silu.py:12\ny = x.silu()", 9: "never"})
    assert text == "loop 2\n  # silu.py:12\n  # y = x.silu()\n  halt\nend\n"
    assert isa.assemble(text, "C") == program


def test_unmatched_ends_stay_at_the_margin() -> None:
    assert isa.disassemble([END(), END(), HALT()]) == "end\nend\nhalt\n"


FILL_HEAD = "fill A l1=0 l1_stride=0 mem=0 stride=0 g=1 nk=1 "

# The caret's column is marked in the text itself, by the character before it.
ERRORS = [
    ("|fil A", "no instruction 'fil'; expected one of seta, adda, loop"),
    ("|vfill mem=0", "no instruction 'vfill'"),
    ("|HALT", "no instruction 'HALT'"),
    ("|loop", "LOOP, operand count is missing"),
    ("loop 4 |5", "expected name=value, not '5'"),
    ("loop |=5", "loop has no operand ''; its operands: count"),
    ("end |count=4", "end has no operand 'count'; its operands: none"),
    ("end |waits=4", "end has no operand 'waits'"),
    ("seta rd=a1 5 |rd=a2", "operand rd is given twice"),
    ("seta rd=a1 5 |6", "expected name=value, not '6'"),
    ("seta |1 5", "rd: expected aN, not '1'"),
    ("seta |a0 5", "rd: expected an integer from 1 to 15, not 0, in 'a0'"),
    ("seta |ax 5", "rd: expected an integer, not 'x', in 'ax'"),
    ("seta a1 |1.5", "imm: expected an integer, not '1.5'"),
    ("seta a1 imm=|+1", "imm: expected an integer, not '+1'"),
    ("seta a1 imm=|", "imm: expected an integer, not ''"),
    ("seta a1 |0x", "imm: expected an integer, not '0x'"),
    ("seta a1 |\u0661", "imm: expected an integer"),  # a digit, but not one of ours
    ("seta a1 |" + "9" * 5000, "imm: expected an integer, not '999"),
    ("seta a1 |99999999999", "imm: expected an integer from -8589934592 to 17179869183"),
    ("loop |a3+", "count: expected an integer, not '', in 'a3+'"),
    ("loop |a3+-1", "count.imm: expected an integer from 0 to 16777215, not -1, in 'a3+-1'"),
    ("loop |a16+1", "count.reg: expected an integer from 0 to 15, not 16"),
    ("fill |C l1=0", "buffer: expected one of A (0), B (1), not 'C'"),
    (FILL_HEAD + "rows=|4-3 k=4 mode=fp16", "rows: expected aN, not '3', in '4-3'"),
    (FILL_HEAD + "rows=|-4 k=4 mode=fp16", "rows: expected an integer, not '', in '-4'"),
    (FILL_HEAD + "rows=4 k=4 mode=|fp8", "mode: expected one of fp16 (0), residual (1)"),
    (FILL_HEAD + "rows=4 k=4 mode=fp16 transpose=|1", "transpose: expected true|false, not '1'"),
    (FILL_HEAD + "rows=4 k=4 mode=fp16 nodes=|3", "nodes: expected {N,...}, not '3'"),
    (FILL_HEAD + "rows=4 k=4 mode=fp16 nodes=|{16}", "nodes: expected members from 0 to 15"),
    (FILL_HEAD + "rows=4 k=4 mode=fp16 nodes=|{1,}", "nodes: expected an integer, not ''"),
    ("|" + FILL_HEAD + "rows=4 k=4 mode=packed", "FILL: with `mode=packed`"),
    ("|; wait s1>=1", "expected a mnemonic before ';'"),
    ("end ;|", "expected wait or post after ';'"),
    ("end ;|   # wait s1>=1", "expected wait or post after ';'"),
    ("end ; |wiat s1>=1", "expected wait or post after ';', not 'wiat'"),
    ("end ; wait|", "wait: expected sN>=N"),
    ("end ; wait| ; post n1:s1", "wait: expected sN>=N"),
    ("end ; wait |s1", "waits: expected sN>=N, not 's1'"),
    ("end ; wait |s1>=0", "waits.count: expected an integer from 1 to 15, not 0"),
    ("end ; wait |s32>=1", "waits.semaphore: expected an integer from 0 to 31, not 32"),
    ("end ; wait s1>=1 s2>=1 |s3>=1", "wait: at most 2"),
    ("end ; wait s1>=1 ; |wait s2>=1", "wait is there twice"),
    ("|end ; wait s1>=1 s1>=2", "END: two waits name different semaphores"),
    ("end ; post |2:s1", "posts: expected nN, not '2', in '2:s1'"),
    ("end ; post |n2", "posts: expected nN:sN, not 'n2'"),
    ("end ; post |n16:s1", "posts.node: expected an integer from 0 to 15, not 16"),
    ("end ; post |n1:1", "posts: expected sN, not '1', in 'n1:1'"),
]


@pytest.mark.parametrize(("marked", "problem"), ERRORS)
def test_errors(marked: str, problem: str) -> None:
    before, _, after = marked.partition("|")
    source = "  " + before + after
    with pytest.raises(AssemblyError) as caught:
        isa.assemble("halt\n\n" + source + "\nhalt", "C")
    error = caught.value
    assert (error.line, error.column, error.source) == (3, len(before) + 3, source)
    assert error.problem.startswith(problem)
    first, second, third = str(error).split("\n")
    assert first == f"line 3, column {error.column}: {error.problem}"
    assert second == "  " + source
    assert third == " " * (error.column + 1) + "^"


def test_the_caret_follows_tabs() -> None:
    with pytest.raises(AssemblyError) as caught:
        isa.assemble("\tend\t; wiat", "C")
    assert str(caught.value).split("\n")[2] == "  \t   \t  ^"


EXEC_HEAD = "exec rows=1 cols=1 f=mac dst=none a="


@pytest.mark.parametrize(
    "text",
    [
        "reg[0]",
        "row[0]/1",
        "imm[0]",
        "none[0]",
        "reg[0]/",
        "reg[0",
        "reg[b]/1",
        "l1x[0]/1",
        "1e39",
        "1" * 400,
        "0f123",
        "infinity",
        "1e",
        "",
        "0x10",
    ],
)
def test_sources_that_are_none(text: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        isa.assemble(EXEC_HEAD + text, "V")
    assert caught.value.column == len(EXEC_HEAD) + 1
    assert caught.value.problem.startswith("a: expected ")


@settings(max_examples=200)
@given(text=st.text(alphabet="halt loop3 seta a1=5;,+-[]{}/#>s\n\t\r\x0b\x85\u2028é", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        program = isa.assemble(text, "C")
    except AssemblyError:
        return
    assert isa.assemble(isa.disassemble(program), "C") == program
