"""ECP5, of Lattice: four-input LUTs, multipliers of 18 by 18 bits, block RAM of 16 Kibit."""

from hw.synth.family import Family

# Comparison with a constant takes less as LUTs than as a carry chain. Two LUTs and the multiplexer
# between them are a function of five inputs, which saves time and no LUT.
COMMANDS = """\
scratchpad -set abc9.script "{mapping}"
scratchpad -set abc9.D {delay}
synth_ecp5 -nowidelut -cmp2softlogic -top {top}
"""

NOTE = """\
LUT4 counts sites: a function takes one, a carry cell (CCU2C) two, a LUT
RAM of 16 x 4 bits (DPR16X4) six, being three slices. The columns behind DP16KD are the cells
themselves; multiplexers between LUTs (PFUMX, L6MUX21) take no sites of their own."""

ECP5 = Family(
    name="ECP5",
    commands=COMMANDS,
    delay=8_000,  # some 15 LUTs, which is 20 ns with wires
    cells={
        "LUT4": "LUT4",
        "CCU2C": "CCU2C",
        "PFUMX": "PFUMX",
        "L6MUX21": "L6MUX21",
        "TRELLIS_DPR16X4": "DPR16X4",
        "TRELLIS_FF": "FF",
        "MULT18X18D": "MULT18X18D",
        "DP16KD": "DP16KD",
    },
    nothing=frozenset({"$scopeinfo"}),
    # A carry cell takes the two LUTs of its slice. Of the three slices of a LUT RAM two hold the
    # bits, the inputs of the third write them. Multiplexers between LUTs are there anyway.
    resources={
        "LUT4": {"LUT4": 1, "CCU2C": 2, "DPR16X4": 6},
        "FF": {"FF": 1},
        "MULT18X18D": {"MULT18X18D": 1},
        "DP16KD": {"DP16KD": 1},
    },
    columns={
        "LUT": "LUT4",
        "CCU2C": "CCU2C",
        "DPR16X4": "DPR16X4",
        "PFUMX": "PFUMX",
        "L6MUX21": "L6MUX21",
    },
    note=NOTE,
)
