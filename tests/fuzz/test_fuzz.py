"""Random kernels compute what their traces mean; broken ones are refused, and nothing else."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import pytest

from kohakuaccel.errors import CapacityError, Diagnostic
from tests.fuzz.generator import generate
from tests.fuzz.mutations import mutated
from tests.fuzz.running import check

pytestmark = [
    pytest.mark.golden,
    # Random numbers are hazardous; a text that Python warns of is no program here.
    pytest.mark.filterwarnings("ignore::kohakutpu.lang.hazards.NumericHazard"),
]

FIRST = int(os.environ.get("KTPU_FUZZ_SEED", "0"))  # to look elsewhere
VALID, BROKEN = 80, 120
MANY = 5_000
ROOT = Path(__file__).parents[2]
# What Python itself says of a text that is no program, that names what is not there, calls a
# function with arguments it has not, or computes with texts and None. It comes with the line.
SIGNATURE = ("positional argument", "unexpected keyword", "missing", "multiple values")
OURS = ("Symbol", "Binary", "Tiled", "Window", "Tensor", "Expression", "Accumulator", "Scalar")


def valid(seed: int) -> bool:
    """Return whether there was room for a kernel; it is then right."""
    source = generate(seed)
    try:
        check(source, seed)
    except CapacityError:
        return False  # what a machine has no room for is refused with the numbers
    except Exception as error:
        raise AssertionError(f"seed {seed}:\n{source.text}") from error
    return True


def broken(seed: int) -> bool:
    """Return whether a mutation was refused."""
    source = mutated(generate(seed), seed)
    try:
        check(source, seed, free=False)
    except Diagnostic as error:
        if error.loc is None or not error.message or not error.fix:
            raise AssertionError(f"seed {seed}: no place or no fix") from error
        return True
    except SyntaxError:
        return False
    except Exception as error:
        if not pythons_own(error):
            raise AssertionError(f"seed {seed}:\n{source.text}") from error
    return False


def pythons_own(error: Exception) -> bool:
    """Return whether Python says it of the kernel's own line, with none of our code in between."""
    frames = traceback.extract_tb(error.__traceback__)
    last = max((n for n, f in enumerate(frames) if f.filename.startswith("<fuzz")), default=None)
    ours = [f for f in frames[last or 0 :] if Path(f.filename).is_relative_to(ROOT)]
    ours = [f for f in ours if "site-packages" not in Path(f.filename).parts]
    if last is None or ours:
        return False
    said = str(error)
    about_ours = any(f"'{name}'" in said for name in OURS) and "ufuncs" not in said
    calls = any(text in said for text in SIGNATURE)
    return isinstance(error, AttributeError) or not about_ours or calls


@pytest.mark.parametrize("part", range(4))
def test_valid_kernels(part: int) -> None:
    seeds = range(FIRST + part * VALID // 4, FIRST + (part + 1) * VALID // 4)
    assert sum(valid(seed) for seed in seeds) > 0.8 * len(seeds)


@pytest.mark.parametrize("part", range(4))
def test_broken_kernels(part: int) -> None:
    seeds = range(FIRST + part * BROKEN // 4, FIRST + (part + 1) * BROKEN // 4)
    assert sum(broken(seed) for seed in seeds) > len(seeds) // 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_kernels(part: int) -> None:
    start = FIRST + 100_000 + part * MANY // 20
    for seed in range(start, start + MANY // 20):
        valid(seed)
        broken(seed)
