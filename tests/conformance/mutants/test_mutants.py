"""Every mutant is caught by the case that the page names, and the page is right."""

import re
import sys
from functools import cache
from pathlib import Path

import pytest

from kohakutpu.config import preset
from kohakutpu.conformance import Case, generate
from tests.conformance.mutants import page
from tests.conformance.mutants.golden import MUTANTS
from tests.conformance.mutants.mutation import Mutant, hunt, mutated

pytestmark = pytest.mark.conformance
PAGE = Path(__file__).parents[3] / "docs" / "mutants.md"
ROW = re.compile(r"\| ([^|`]+) \| `[^`]+` \| [^|]+ \| `([^`]+)` on `(\w+)` \|")
MINIMUM = 40


@cache
def caught_by() -> dict[str, tuple[str, str]]:
    """Return what the page says: mutant to case and machine."""
    return {name: (case, machine) for name, case, machine in ROW.findall(PAGE.read_text())}


@cache
def case(machine: str, name: str) -> Case:
    return suite(machine, name.split("/")[0])[name]


@cache
def suite(machine: str, group: str) -> dict[str, Case]:
    return {found.name: found for found, _ in generate(preset(machine), f"{group}/*")}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_case_on_the_page_catches_it(mutant: Mutant) -> None:
    name, machine = caught_by()[mutant.name]
    assert hunt(mutant, preset(machine), [case(machine, name)]) == [name]


def test_the_machine_itself_passes_those_cases() -> None:
    for machine in page.MACHINES:
        cases = [case(m, name) for name, m in caught_by().values() if m == machine]
        assert hunt(None, preset(machine), cases) == []


def test_there_are_enough_and_each_has_a_name() -> None:
    assert len(MUTANTS) >= MINIMUM
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert set(caught_by()) == {mutant.name for mutant in MUTANTS}


@pytest.mark.slow
def test_the_page_is_what_a_hunt_gives() -> None:
    assert PAGE.read_text() == page.page()


def test_a_replacement_that_is_nowhere_is_an_error() -> None:
    lost = Mutant("lost", "kohakutpu/model/frontend.py", "no such text", "")
    with pytest.raises(ValueError, match="lost: 'no such text' is 0 times in"):
        hunt(lost, preset("tiny"), [])
    elsewhere = Mutant("elsewhere", "kohakutpu/config.py", "WORD_BYTES = 32", "WORD_BYTES = 31")
    with pytest.raises(ValueError, match=r"kohakutpu\.config is not part of the golden machine"):
        hunt(elsewhere, preset("tiny"), [])


def test_modules_are_put_back() -> None:
    from kohakutpu.devices import golden
    from kohakutpu.numerics import fp32, mx

    function = mx.quantise  # which is in a module of the same name
    before = {name: module for name, module in sys.modules.items() if name.startswith("kohakutpu")}
    with mutated(MUTANTS[1], preset("tiny")):
        assert sys.modules["kohakutpu.numerics.fp32"] is not fp32
    after = {name: module for name, module in sys.modules.items() if name.startswith("kohakutpu")}
    assert after == before
    import kohakutpu.devices as devices
    import kohakutpu.numerics as numerics

    assert vars(devices)["golden"] is golden
    assert vars(numerics)["fp32"] is fp32
    assert mx.quantise is function
