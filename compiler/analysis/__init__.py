"""What the compiler proves of a kernel before it lowers it, or refuses with the fix."""

from __future__ import annotations

from compiler.analysis.bounds import check_affine, check_bounds, check_sizes
from compiler.analysis.capacity import check_capacity
from compiler.analysis.coverage import check_coverage, check_written
from compiler.analysis.extents import check_extents, check_geometry, check_shapes
from compiler.analysis.frames import check_frames
from compiler.analysis.hazards import check_hazards
from compiler.analysis.initialised import check_initialised
from compiler.analysis.instances import Env
from compiler.analysis.knobs import check_knobs
from compiler.analysis.numerics import warn_of_hazards
from compiler.analysis.settled import check_settled
from compiler.analysis.sites import Site, sites
from compiler.analysis.states import check_states
from compiler.analysis.sweeps import check_sweeps
from compiler.analysis.tiles import check_tiles
from kohakuaccel.ir.nodes import Trace
from kohakuaccel.ir.verifier import verify


def check(trace: Trace) -> None:
    """Prove what holds for all shapes; warn of numbers that are likely to leave their format.

    Raises
    ------
    KernelError
        If the kernel is wrong whatever it is called with.
    """
    verify(trace)
    found = sites(trace)
    check_settled(trace, found)
    check_affine(found)
    check_knobs(found)
    check_tiles(found)
    check_shapes(found)
    check_sizes(found)
    check_hazards(found)
    check_states(found)
    check_written(trace, found)
    warn_of_hazards(found)


def check_specialised(trace: Trace, env: Env) -> None:
    """Prove what depends on numbers; ``env`` holds every dimension and knob.

    Raises
    ------
    KernelError
        If the kernel is wrong for these shapes or knobs.
    """
    found = sites(trace)
    check_sizes(found, env)
    check_geometry(found, env)
    check_sweeps(found, env)
    check_bounds(found, env)
    check_coverage(found, env)
    check_extents(found, env)
    check_frames(found, env)
    check_initialised(found, env)


__all__ = [
    "Site",
    "check",
    "check_capacity",
    "check_specialised",
    "sites",
]
