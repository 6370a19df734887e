"""The user's way to a board, without a board: serial pins, a pseudo-terminal, pyserial, the API."""

import threading
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from serial import Serial

from demos.kohakutpu.digits import Network, digits
from hw.sim.serial import Terminal
from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from kohakutpu.api.session import Session
from kohakutpu.devices import MachineFault
from kohakutpu.devices.host import Host
from kohakutpu.link import LinkError
from tests.devices.board import BAUD, MEMORY_WORDS, BadLine, Board

pytestmark = pytest.mark.cocotb
IMAGES = 8


class Silence:
    """A line with nobody at its other end."""

    def write(self, data: bytes) -> int:
        return len(data)

    def read(self, size: int = 0) -> bytes:
        sleep(0.01)
        return b""


def opened(board: Board, **options: int) -> Session:
    return ktpu.device("board", machine="tiny", port=str(board.port), baud=BAUD, **options)


def product(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((12, 40), np.float32) for _ in range(2))
    return (ktpu.tensor(a) @ ktpu.tensor(b)).numpy()


def repeated() -> None:
    for _ in range(1000):
        product()


def golden(seed: int = 0) -> np.ndarray:
    with ktpu.device("golden", machine="tiny"):
        return product(seed)


def test_the_digits(board: Board) -> None:
    _, _, images, _ = digits()
    network = Network(images.shape[1])
    with ktpu.device("golden", machine="tiny"):
        wanted = network.on_machine(images[:IMAGES])
    with opened(board) as session:
        found = network.on_machine(images[:IMAGES])
        stats = session.stats()
        session.close()
    assert found.tobytes() == wanted.tobytes()
    assert stats.cycles > 1000
    assert stats.macs > IMAGES * (64 * 128 + 128 * 64)


@pytest.mark.parametrize("seed", range(3))
def test_a_line_that_damages_a_byte_now_and_then(board: Board, seed: int) -> None:
    line = BadLine(board.model, rate=0.002, damages=4, seed=seed)
    board.plug(line)
    with opened(board) as session:
        while line.damages:
            assert np.array_equal(product(seed), golden(seed))
        session.close()


def test_garbage_before_and_between(board: Board) -> None:
    board.model.write(bytes(range(256)) * 5)
    with opened(board) as session:
        first = product()
        board.model.write(b"\xc0\xdb" * 300 + bytes(100))
        assert np.array_equal(first, golden())
        assert np.array_equal(product(1), golden(1))
        session.close()


def test_unplugged_in_the_middle(board: Board) -> None:
    with opened(board) as session:
        x = ktpu.tensor(np.ones((8, 32), np.float32))
        timer = threading.Timer(0.3, board.unplug)
        timer.start()
        with pytest.raises(LinkError, match=r"went away|cannot be opened"):
            repeated()
        timer.join()
        with pytest.raises(LinkError, match=r"ttyBOARD cannot be opened: .* plugged in"):
            product()
        board.plug()
        assert np.array_equal(product(), golden())
        assert np.array_equal(x.numpy(), np.ones((8, 32)))  # it has had power all the time
        session.close()


def test_power_lost(board: Board) -> None:
    with opened(board) as session:
        x = ktpu.tensor(np.ones((8, 32), np.float32))
        board.power_off()
        with pytest.raises(LinkError):
            x.numpy()
        board.plug()
        with pytest.raises(LinkError, match="has lost its memory"):
            x.numpy()
        session.close()
    with opened(board) as session:
        assert np.array_equal(product(), golden())
        session.close()


def test_a_fault_and_a_run_after_it(board: Board) -> None:
    with opened(board, watchdog=8) as session:
        with pytest.raises(MachineFault, match="nobody made progress for 8 cycles"):
            product()
        session.close()
    with opened(board) as session:
        assert np.array_equal(product(), golden())
        session.close()


def test_a_run_that_somebody_left_behind(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with opened(board) as session:
        product()
        monkeypatch.setattr(Host, "_outcome", interrupted)
        with pytest.raises(KeyboardInterrupt):
            product()
        monkeypatch.undo()
        assert np.array_equal(product(), golden())
        session.close()


def test_memory_ends_where_the_board_says(board: Board) -> None:
    with opened(board) as session:
        assert session.runtime.device.memory_bytes == (MEMORY_WORDS - 17) * 32
        with pytest.raises(MemoryError):
            ktpu.zeros((256, 256))
        session.close()


def test_bytes_that_are_no_whole_words(board: Board) -> None:
    with opened(board) as session:
        device = session.runtime.device
        device.write(64, bytes(range(64)))
        device.write(64, b"\xc0\xdb\xdc")
        assert device.read(64, 64) == b"\xc0\xdb\xdc" + bytes(range(3, 64))
        assert device.read(64, 5) == b"\xc0\xdb\xdc\x03\x04"
        session.close()


def test_another_configuration(board: Board) -> None:
    with pytest.raises(CallError, match=r"of configuration .* small is"):
        ktpu.device("board", machine="small", port=str(board.port), baud=BAUD)


def test_no_port(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="serial port"):
        ktpu.device("board", machine="tiny")
    with pytest.raises(LinkError, match="nowhere cannot be opened: there is no such port"):
        ktpu.device("board", machine="tiny", port=str(tmp_path / "nowhere"))
    (tmp_path / "file").touch()
    with pytest.raises(LinkError, match=r"file cannot be opened: .* is it a serial port"):
        ktpu.device("board", machine="tiny", port=str(tmp_path / "file"))


def test_a_port_that_another_program_has() -> None:
    with Terminal(Silence()) as terminal, Serial(terminal.path, exclusive=True):
        with pytest.raises(LinkError, match="another program or session has it open"):
            ktpu.device("board", machine="tiny", port=terminal.path)


def test_nobody_there() -> None:
    with Terminal(Silence()) as terminal, pytest.raises(LinkError, match="no answer to HELLO"):
        ktpu.device("board", machine="tiny", port=terminal.path)
