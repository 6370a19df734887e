from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.devices.board import Board


@pytest.fixture(scope="module")
def power(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """A simulated board that nothing is connected to."""
    from tests.devices.board import Board

    board = Board(tmp_path_factory.mktemp("board"))
    yield board
    board.close()


@pytest.fixture
def board(power: Board) -> Iterator[Board]:
    """A simulated board that is plugged in."""
    power.plug()
    yield power
    power.unplug()
