"""What every machine's kernels share: dimensions, grids, stages and loops."""

from kohakuaccel.ir.expr import ceildiv
from kohakuaccel.lang.counts import dims
from kohakuaccel.lang.scopes import grid, loop, stage, sweep, units

__all__ = ["ceildiv", "dims", "grid", "loop", "stage", "sweep", "units"]
