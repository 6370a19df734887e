"""What every test of the repository shares: tiers and how hypothesis behaves."""

import pytest
from hypothesis import settings

TIERS = ("unit", "golden", "conformance", "cocotb", "build")

# A shared machine makes single examples slow now and then; that is no failure of the code.
# With CI set, hypothesis itself derandomizes.
settings.register_profile("kohakutpu", deadline=None)
settings.load_profile("kohakutpu")


# Their files build simulators of their own: two workers would wait for the same ones.
BENCHES = ("tests/hw/", "cocotb_tests/")
SHARED = "tests/hw/top/"


@pytest.hookimpl(tryfirst=True)  # before the workers see what belongs together
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give `unit` to a test that names no tier, and refuse one that names two."""
    for item in items:
        tiers = sorted(set(TIERS) & {mark.name for mark in item.iter_markers()})
        if len(tiers) > 1:
            raise pytest.UsageError(f"{item.nodeid}: one tier a test, not {' and '.join(tiers)}")
        if not tiers:
            item.add_marker("unit")
        file = item.nodeid.partition("::")[0]
        if "cocotb" in tiers and file.startswith(BENCHES) and not file.startswith(SHARED):
            item.add_marker(pytest.mark.xdist_group(file))
