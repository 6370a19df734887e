"""The golden machine beside the hardware, for every machine and simulator."""

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from hw.sim import model
from hw.sim.model import Variant
from kohakutpu import api as ktpu
from kohakutpu import devices
from kohakutpu.config import preset
from tests.hw.top import twin

# Machine, seed of random stalls on every channel of memory, simulator. The slow ones are the rest,
# and all with assertions.
PARAMETERS = [
    ("tiny", 0, Variant.FAST),
    ("tiny", 7, Variant.FAST),
    ("small", 0, Variant.FAST),
    ("duo", 7, Variant.FAST),
    *(
        pytest.param(run, marks=pytest.mark.slow)
        for run in (
            ("small", 7, Variant.FAST),
            ("duo", 0, Variant.FAST),
            ("tiny", 3, Variant.CHECKED),
            ("small", 3, Variant.CHECKED),
            ("duo", 3, Variant.CHECKED),
        )
    ),
]


def name_of(run: tuple[str, int, Variant]) -> str:
    return f"{run[0]}-{run[1]}-{run[2].value}"


@cache
def library(machine: str, variant: Variant) -> Path:
    return model.build(preset(machine), variant=variant)


@pytest.fixture(params=PARAMETERS, ids=name_of)
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A device that is both machines, on which every run is compared."""
    machine, stalls, variant = request.param
    kind = devices.Kind(
        "both",
        partial(twin.Twin, library=library(machine, variant)),
        {"stalls": int},
        twin.no_options,
    )
    monkeypatch.setitem(devices.KINDS, "twin", kind)
    with ktpu.device("twin", machine=machine, stalls=stalls) as session:
        yield session
        session.close()
