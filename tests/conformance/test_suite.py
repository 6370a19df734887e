"""The suite on the golden machine, what it covers, and that its outcomes depend on no order."""

import random
from functools import cache

import pytest

from kohakutpu import devices
from kohakutpu.config import PRESETS, Machine, preset
from kohakutpu.conformance import Case, Trace, generate, run
from kohakutpu.conformance.case import settle
from kohakutpu.conformance.coverage import measure

pytestmark = pytest.mark.conformance


@cache
def made(name: str) -> list[tuple[Case, Trace]]:
    return list(generate(preset(name)))


def passes(machine: Machine, cases: list[Case], **options: object) -> None:
    device = devices.create("golden", machine, options)
    failed = [verdict for verdict in run(cases, device) if not verdict.passed]
    device.close()
    assert not failed, [(verdict.case.name, verdict.problems) for verdict in failed[:5]]


def test_the_whole_suite_on_tiny_and_what_it_covers() -> None:
    cases = made("tiny")
    passes(preset("tiny"), [case for case, _ in cases])
    tallies = {tally.title: tally for tally in measure(cases)}
    assert len(tallies) == 6
    for tally in tallies.values():
        assert tally.holes == [], tally.title
    assert len(tallies["field boundaries"].points) > 1000
    names = [case.name for case, _ in cases]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("machine", ["duo", pytest.param("quad", marks=pytest.mark.slow)])
def test_every_pair_of_units(machine: str) -> None:
    found = preset(machine)
    for group in ("transfer", "multicast", "fill", "gather", "barrier", "pipeline"):
        passes(found, [case for case, _ in generate(found, f"{group}/*")])


@pytest.mark.slow
@pytest.mark.parametrize("machine", [name for name in PRESETS if name != "tiny"])
def test_the_whole_suite(machine: str) -> None:
    cases = list(generate(preset(machine)))
    passes(preset(machine), [case for case, _ in cases])
    assert all(tally.enough for tally in measure(cases))


@pytest.mark.parametrize("options", [{"poison": True}, {"seed": 3}])
def test_a_hostile_golden_machine(options: dict[str, object]) -> None:
    """Poison finds a case that looks at what nobody wrote; chance, one that depends on speed."""
    cases = [case for case, _ in made("tiny") if case.name.split("/")[0] not in ("word", "check")]
    written = [case for case in cases if "largest" not in case.name and "FAR" not in case.name]
    passes(preset("tiny"), written[::5], **options)


def disorder(cases: list[tuple[Case, Trace]], machine: Machine, seed: int) -> list[str]:
    """Return the cases that end otherwise when engines go on in another order."""
    differing: list[str] = []
    for case, _ in cases:
        order = random.Random(seed)
        again, _ = settle(case.name, machine, case.image, dict(case.memory), case.bases, order)
        if again != case:
            differing.append(case.name)
    return differing


@pytest.mark.parametrize("machine", ["tiny"])
def test_no_case_depends_on_who_is_faster(machine: str) -> None:
    several = ("semaphore", "barrier", "pipeline", "transfer", "gather", "numbers", "control")
    cases = [pair for pair in made(machine) if pair[0].group in several]
    assert disorder(cases[::2], preset(machine), 5) == []


@pytest.mark.slow
@pytest.mark.parametrize("machine", list(PRESETS))
@pytest.mark.parametrize("seed", [1, 2])
def test_no_case_at_all_depends_on_who_is_faster(machine: str, seed: int) -> None:
    assert disorder(made(machine), preset(machine), seed) == []


def test_the_check_of_orders_finds_a_race() -> None:
    """Two engines wait for one post of the front end, and what comes of it differs."""
    from kohakutpu.conformance.draft import Draft
    from kohakutpu.isa import HALT, SETA, SYNC, Post, Wait

    machine = preset("tiny")
    draft = Draft(machine, "race")
    draft.program(1).code += [
        SYNC(0, waits=(Wait(0, 1),), posts=(Post(1, 1),)),
        SYNC(1, waits=(Wait(0, 1),), posts=(Post(1, 2),)),
        SETA(rd=1, imm=0, posts=(Post(1, 0),)),
        SETA(rd=1, imm=0, waits=(Wait(1, 1),), posts=(Post(1, 0),)),
        HALT(waits=(Wait(2, 1),)),
    ]
    cases = [draft.settled()]
    assert any(disorder(cases, machine, seed) for seed in range(8))


def test_the_suite_is_the_same_every_time() -> None:
    again = list(generate(preset("tiny"), "pairs/*"))
    assert again == [pair for pair in made("tiny") if pair[0].group == "pairs"]
