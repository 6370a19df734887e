"""What every implementation of the machine must do, as cases that any of them can run.

`reference` states the machine one element at a time; `suite` makes cases out of the instruction
tables and asks the reference what must come out; `runner` runs them on a device; `coverage` says
what they look at; `export` keeps them as files. ``ktpu conformance`` does all of it.
"""

from kohakutpu.conformance.case import Case, Stop, Trace
from kohakutpu.conformance.runner import Verdict, judge, run
from kohakutpu.conformance.suite import generate

__all__ = ["Case", "Stop", "Trace", "Verdict", "generate", "judge", "run"]
