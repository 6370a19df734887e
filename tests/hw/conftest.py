import gc
import warnings
from collections.abc import Iterator

import pytest
from amaranth.hdl import UnusedElaboratable


@pytest.fixture
def refused() -> Iterator[None]:
    """For a test that makes components with bad parameters: nobody will elaborate those."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        gc.collect()
