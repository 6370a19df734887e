"""From a component to Verilog that simulates as it should."""

import os
import re

from amaranth.back import verilog
from amaranth.lib import wiring

CONSTANT = re.compile(r"^(\s*)always @\*(\n\s+[^\n]* = \d+'[hbd][0-9a-f]+;)$", re.MULTILINE)


def emit(component: wiring.Component) -> str:
    """Return the Verilog of a component, as the module ``top``."""
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")  # in process: the fast one
    text = verilog.convert(component, name="top", emit_src=False, strip_internal_attrs=True)
    # Yosys writes the constant part of a signal as a block that waits for a change of nothing, and
    # so never runs; `always_comb` runs once at the start.
    return CONSTANT.sub(r"\1always_comb\2", text)
