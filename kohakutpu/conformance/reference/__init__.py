"""The machine of ``docs/machine.md`` as a plain interpreter, one element at a time.

It knows nothing of cycles. What it says of a program is what every implementation must say, as
long as the program does not depend on which of two engines is faster.
"""

from kohakutpu.conformance.reference.faults import CAUSES, Fault, Undefined
from kohakutpu.conformance.reference.machine import Interpreter

__all__ = ["CAUSES", "Fault", "Interpreter", "Undefined"]
