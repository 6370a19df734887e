from collections.abc import Iterator

import pytest

from kohakutpu import api as ktpu


@pytest.fixture(autouse=True)
def hostile() -> Iterator[ktpu.Session]:
    """Run on a machine where unwritten storage is an error and rows are filled up with NaN."""
    with ktpu.device("golden", machine="small", poison=True) as session:
        yield session
