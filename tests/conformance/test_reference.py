"""The reference against results worked out by hand."""

import random
import struct

import pytest

from kohakuaccel.image import UnitProgram
from kohakutpu import isa
from kohakutpu.config import preset
from kohakutpu.conformance.reference import Fault, Interpreter, Undefined

pytestmark = pytest.mark.conformance
TINY = preset("tiny")
OUT = 1024


def run(
    cluster: str = "",
    core: str = "",
    *,
    memory: dict[int, bytes] | None = None,
    order: random.Random | None = None,
) -> Interpreter:
    units = [
        UnitProgram(node, kind, b"".join(isa.encode(i) for i in isa.assemble(text, kind)))
        for node, kind, text in ((0, "C", cluster), (1, "V", core))
        if text
    ]
    regions = {OUT: bytes(512)} | (memory or {})
    interpreter = Interpreter(TINY, tuple(units), regions, order)
    interpreter.run()
    return interpreter


def floats(interpreter: Interpreter, count: int) -> list[float]:
    return list(struct.unpack_from(f"<{count}f", interpreter.memory.regions[OUT]))


def halves(interpreter: Interpreter, count: int) -> list[float]:
    return list(struct.unpack_from(f"<{count}e", interpreter.memory.regions[OUT]))


def fault(cluster: str = "", core: str = "") -> tuple[int, int | None, set[str]]:
    with pytest.raises(Fault) as caught:
        run(cluster, core)
    return caught.value.unit, caught.value.pc, set(caught.value.causes)


MATMUL = """\
fill A l1=0 l1_stride=1 mem=0 stride=2 g=1 nk=1 rows=2 k=3 mode=fp16 ; post n0:s0
fill B l1=0 l1_stride=1 mem=32 stride=2 g=1 nk=1 rows=4 k=3 mode=fp16 ; post n0:s0
gemm a=0 b=0 acc=0 gm=1 gn=1 nk=1 a_stride=1 b_stride=1 accumulate=false ; wait s0>=2 ; post n0:s1
sync 2 ; wait s1>=1
drain acc=0 gm=1 gn=1 to=memory mem=128 stride=1 rows=3 cols=2 format=fp32 order=row
halt
"""


def matrix(rows: list[list[float]]) -> bytes:
    """Return rows of two words; what is right of the numbers is NaN."""
    return b"".join(struct.pack("<32e", *row, *[float("nan")] * (32 - len(row))) for row in rows)


def test_two_matrices_by_hand() -> None:
    left = matrix([[1, 2, 3], [0.5, -1, 4], [9, 9, 9], [9, 9, 9]])
    right = matrix([[1, 1, 1], [2, 0, -1], [7, 7, 7], [8, 8, 8]])
    done = run(MATMUL, memory={0: left, 256: right})
    # The third row is past the extent and zero; the third and fourth column are not written.
    assert floats(done, 4) == [6, -1, 0, 0]
    assert floats(done, 12)[8:] == [3.5, -3, 0, 0]
    assert floats(done, 20)[16:] == [0, 0, 0, 0]
    assert done.macs == 512
    assert done.executed == ((0, 6),)


@pytest.mark.parametrize("seed", range(20))
def test_any_order_gives_the_same(seed: int) -> None:
    left = matrix([[1, 2, 3]] * 4)
    right = matrix([[1, 1, 1]] * 4)
    done = run(MATMUL, memory={0: left, 256: right}, order=random.Random(seed))
    assert floats(done, 2) == [6, 6]


CORE = """\
vfill mem=1 stride=1 l1=0 l1_stride=1 rows=3 row_extent=2 cols=5 col_extent=4 format=fp16 ; post n1:s0
exec rows=3 cols=5 f=mac a=l1h[0]/1 b=2.0 c=1.0 dst=l1h[8]/1 reduce=sum red=0 ; wait s0>=1 ; post n1:s1
vdrain l1=8 l1_stride=1 rows=3 row_extent=3 cols=5 col_extent=5 format=fp16 order=row to=memory mem=128 stride=1 ; wait s1>=1 ; post n1:s2
exec rows=3 cols=1 f=mac a=row[0] dst=l1f[16]/1 ; wait s2>=1 ; post n1:s1
vdrain l1=16 l1_stride=1 rows=3 row_extent=3 cols=1 col_extent=1 format=fp32 order=row to=memory mem=160 stride=1 ; wait s1>=1
halt
"""  # noqa: E501


def test_a_window_by_hand() -> None:
    words = struct.pack("<48e", *range(48))
    done = run(core=CORE, memory={0: words})
    # Rows start in the second quarter of a word; the fifth column and the third row are zero.
    assert halves(done, 8) == [9, 11, 13, 15, 1, 0, 0, 0]
    assert halves(done, 24)[16:] == [41, 43, 45, 47, 1, 0, 0, 0]
    assert halves(done, 40)[32:] == [1, 1, 1, 1, 1, 0, 0, 0]
    sums = struct.unpack_from("<f28xf28xf", done.memory.regions[OUT], 256)
    assert sums == (49, 177, 5)


def test_registers_loops_and_rings() -> None:
    text = """\
    loop 5
      adda a1 a1 3 modulo=7
      loop a2+1
        adda a3 a3 1
      end
      adda a2 a2 1
    end
    halt
    """
    done = run(core=text)
    # 3, 6, 2, 5, 1: once round the ring; 1 + 2 + 3 + 4 + 5 passes.
    assert done.units[1].registers[1:4] == [1, 5, 15]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seta a1 0", (1, 1, {"LOOP_DEPTH"})),
        ("end\nhalt", (1, 0, {"LOOP_DEPTH"})),
        ("loop 1\n" * 9, (1, 8, {"LOOP_DEPTH"})),
        ("seta a1 0 ; post n1:s0\nhalt", (1, 1, {"SEM_LEFT"})),
        ("seta a1 0 ; post n0:s0\nhalt", (0, None, {"SEM_LEFT"})),
        ("seta a1 0 ; wait s0>=1\nhalt", (1, 0, {"WATCHDOG"})),
        ("sync 2 ; wait s0>=1\nhalt", (1, 0, {"WATCHDOG"})),
        ("sync 0 ; post n2:s0\nhalt", (1, 0, {"ILLEGAL"})),
        ("loop 128\nsync 0 ; post n1:s0 n1:s0\nend\nhalt", (1, 1, {"SEM_OVERFLOW"})),
    ],
)
def test_faults_by_hand(text: str, expected: tuple[int, int | None, set[str]]) -> None:
    assert fault(core=text) == expected


WINDOW = "l1_stride=1 rows=1 row_extent=1 cols=16 col_extent=16 format=fp16"


@pytest.mark.parametrize(
    ("text", "causes"),
    [
        (f"vfill mem=0 stride=1 l1=2048 {WINDOW}", {"L1_RANGE"}),
        (f"vfill mem={4 << 22} stride=1 l1=0 {WINDOW}", {"MEMORY"}),
        (f"vfill mem={4 << 22} stride=1 l1=2048 {WINDOW}", {"L1_RANGE", "MEMORY"}),
        ("exec rows=1 cols=5 f=mac a=1.0 dst=reg[127]/1", {"REG_RANGE"}),
        ("exec rows=2 cols=4 f=mac a=1.0 dst=reg[0]/0", {"OVERLAP"}),
        ("exec rows=1 cols=16 f=mac a=l1h[4]/0 dst=l1f[3]/0", {"OVERLAP"}),
    ],
)
def test_windows_by_hand(text: str, causes: set[str]) -> None:
    assert fault(core=f"{text}\nhalt") == (1, 0, causes)


def test_what_nobody_wrote_settles_nothing() -> None:
    with pytest.raises(Undefined, match="vector L1 word 3 is read and was never written"):
        run(core="exec rows=1 cols=1 f=mac a=l1h[3]/0 dst=none\nhalt")
    show = f"vdrain l1=0 {WINDOW} order=row to=memory mem=128 stride=1\nhalt"
    with pytest.raises(Undefined, match="goes to memory and is not known"):
        run(core=show)
    with pytest.raises(Undefined, match="belongs to no region"):
        run(core=f"vfill mem=128 stride=1 l1=0 {WINDOW}\n" + show.replace("mem=128", "mem=900"))


def test_hand_over_by_hand() -> None:
    cluster = """\
    fill A l1=0 l1_stride=1 mem=0 stride=2 g=1 nk=1 rows=4 k=3 mode=fp16 ; post n0:s0
    fill B l1=0 l1_stride=1 mem=0 stride=2 g=1 nk=1 rows=4 k=3 mode=fp16 ; post n0:s0
    gemm a=0 b=0 acc=0 gm=1 gn=1 nk=1 a_stride=1 b_stride=1 accumulate=false ; wait s0>=2 ; post n0:s1
    drain acc=0 gm=1 gn=1 to=node nodes={1} buffer=vector mem=5 stride=1 rows=2 cols=3 format=fp16 order=row ; wait s1>=1 ; post n1:s7
    halt
    """  # noqa: E501
    core = """\
    vdrain l1=5 l1_stride=1 rows=4 row_extent=4 cols=16 col_extent=16 format=fp16 order=row to=memory mem=128 stride=1 ; wait s7>=1
    halt
    """  # noqa: E501
    rows = matrix([[1, 0, 0], [0, 2, 0], [1, 1, 1], [5, 5, 5]])
    done = run(cluster, core, memory={0: rows})
    assert halves(done, 16) == [1, 0, 1] + [0] * 13
    assert halves(done, 32)[16:] == [0, 4, 2] + [0] * 13
    assert halves(done, 64)[32:] == [0] * 32
