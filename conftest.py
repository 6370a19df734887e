"""What every test of the repository shares: tiers and how hypothesis behaves."""

from typing import Any

import pytest
from hypothesis import settings

TIERS = ("unit", "golden", "conformance", "cocotb", "build")

# A shared machine makes single examples slow now and then; that is no failure of the code.
# With CI set, hypothesis itself derandomizes.
settings.register_profile("kohakutpu", deadline=None)
settings.load_profile("kohakutpu")


# Their files build simulators of their own: two workers would wait for the same ones.
BENCHES = ("tests/hw/", "tests/devices/test_board.py", "cocotb_tests/")
SHARED = "tests/hw/top/"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a file of `BENCHES` to one worker, and of the others each test to whoever is free."""
    from xdist.scheduler import LoadScopeScheduling

    class ByBench(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            alone = not nodeid.startswith(BENCHES) or nodeid.startswith(SHARED)
            return nodeid if alone else nodeid.partition("::")[0]

    return ByBench(config, log)


@pytest.hookimpl(tryfirst=True)  # before -m chooses among them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give `unit` to a test that names no tier, and refuse one that names two."""
    for item in items:
        tiers = sorted(set(TIERS) & {mark.name for mark in item.iter_markers()})
        if len(tiers) > 1:
            raise pytest.UsageError(f"{item.nodeid}: one tier a test, not {' and '.join(tiers)}")
        if not tiers:
            item.add_marker("unit")
