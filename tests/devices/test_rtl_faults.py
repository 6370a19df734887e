"""Faults of real units: unit, pc and cause are the golden machine's, and the next run is right."""

from collections.abc import Iterator

import pytest

from kohakuaccel.image import Image, UnitProgram
from kohakuaccel.runtime.device import DeviceFault
from kohakuaccel.runtime.launch import Runtime
from kohakutpu import isa
from kohakutpu.config import preset
from kohakutpu.devices import rtl
from tests.devices.jobs import golden, job, runtime

pytestmark = pytest.mark.cocotb

TINY = preset("tiny")
NODES = {kind: TINY.of_kind(kind)[0].id for kind in "CV"}
PAST = 4 * TINY.dram_words  # quarter

FILL = "l1_stride=1 stride=1 g=1 nk=1 rows=4 k=32 mode=fp16"
GEMM = "gm=1 gn=1 nk=1 a_stride=0 b_stride=0 accumulate=false"
DRAIN = "gm=1 gn=1 stride=1 rows=4 cols=4 format=fp16 order=row"
VFILL = "stride=0 l1_stride=1 rows=1 row_extent=1 cols=16 col_extent=16 format=fp16"

FAULTS: dict[str, tuple[str, dict[str, str]]] = {
    "opcode": ("ILLEGAL", {"C": "seta a1 1\n", "V": "halt\n"}),
    "loops": ("LOOP_DEPTH", {"V": "loop 1\n" * 9 + "end\n" * 9 + "halt\n"}),
    "end": ("LOOP_DEPTH", {"C": "end\nhalt\n"}),
    "filled": ("L1_RANGE", {"C": f"fill A l1=256 mem=0 {FILL}\nhalt\n"}),
    "multiplied": ("L1_RANGE", {"C": f"gemm a=0 b=256 acc=0 {GEMM}\nhalt\n"}),
    "accumulated": ("ACC_RANGE", {"C": f"seta a1 1\ngemm a=0 b=0 acc=256 {GEMM}\nhalt\n"}),
    "drained": ("ACC_RANGE", {"C": f"drain acc=256 mem=0 to=memory {DRAIN}\nhalt\n"}),
    "vector": ("L1_RANGE", {"V": f"vfill l1=2048 mem=0 {VFILL}\nhalt\n"}),
    "source": ("L1_RANGE", {"V": "exec rows=1 cols=16 f=mac a=l1h[2048]/1 dst=reg[0]/4\nhalt\n"}),
    "registers": ("REG_RANGE", {"V": "exec rows=1 cols=4 f=mac a=1.0 dst=reg[128]/1\nhalt\n"}),
    "overlap": (
        "OVERLAP",
        {"V": "exec rows=2 cols=16 f=mac a=l1h[0]/1 dst=l1h[1]/1\nhalt\n"},
    ),
    "misaligned": ("MISALIGNED", {"C": f"fill A l1=0 mem=1 {FILL}\nhalt\n"}),
    "read": ("MEMORY", {"V": f"vfill l1=0 mem={PAST} {VFILL}\nhalt\n"}),
    "filled from": ("MEMORY", {"C": f"seta a1 {PAST}\nfill A l1=0 mem=a1 {FILL}\nhalt\n"}),
    "written": ("MEMORY", {"C": f"drain acc=0 mem={PAST} to=memory {DRAIN}\nhalt\n"}),
    "posted too often": (
        "SEM_OVERFLOW",
        {"V": f"loop 256\nsync 1 ; post n{NODES['V']}:s3\nend\nhalt\n"},
    ),
    "left": ("SEM_LEFT", {"C": f"sync 0 ; post n{NODES['C']}:s3\nhalt\n", "V": "halt\n"}),
    "waits": ("WATCHDOG", {"C": "halt\n", "V": "seta a1 1\nsync 2 ; wait s1>=1\nhalt\n"}),
}


@pytest.fixture(scope="module")
def device() -> Iterator[Runtime]:
    made = rtl.RtlDevice(TINY, watchdog=2000)
    yield runtime(made)
    made.close()


def image(name: str, texts: dict[str, str]) -> Image:
    units = []
    for kind, text in texts.items():
        words = b"".join(isa.encode(instruction) for instruction in isa.assemble(text, kind))
        if name == "opcode" and kind == "C":
            words += b"\xff" * 32
        units.append(UnitProgram(NODES[kind], kind, words))
    return Image(TINY.hash, tuple(units))


def fault_of(runtime: Runtime, program: Image) -> tuple[int, int, str]:
    with pytest.raises(DeviceFault) as caught:
        runtime.launch(program, ())
    return caught.value.unit, caught.value.pc, caught.value.cause


@pytest.mark.parametrize("name", FAULTS)
def test_the_same_fault(device: Runtime, name: str) -> None:
    cause, texts = FAULTS[name]
    program = image(name, texts)
    reference = golden(TINY)
    wanted = fault_of(reference, program)
    assert wanted[2] == cause
    assert fault_of(device, program) == wanted
    work = job(TINY, "matmul", ((5, 40), (6, 40)))
    assert work.run(device)[0] == work.run(reference)[0]


def test_a_memory_that_fails() -> None:
    made = rtl.RtlDevice(TINY, errors=(100, 101))
    for mem, pc in ((400, 0), (396, None)):
        program = image("", {"V": f"vfill l1=0 mem={mem} {VFILL}\nhalt\n"})
        if pc is None:
            runtime(made).launch(program, ())
        else:
            assert fault_of(runtime(made), program) == (NODES["V"], pc, "MEMORY")
    made.close()
