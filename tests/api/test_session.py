# pyright: reportUnusedExpression=false, reportOperatorIssue=false
"""Devices, memory, counters, and what happens when a run ends early."""

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakuaccel.runtime.arena import OutOfMemory
from kohakutpu import api as ktpu
from kohakutpu import kernels
from kohakutpu.api.session import _Current
from kohakutpu.config import Machine
from kohakutpu.devices import MachineFault

pytestmark = pytest.mark.golden


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No device is open or selected, and the environment says nothing."""
    monkeypatch.setattr(_Current, "session", None)
    monkeypatch.setattr(_Current, "opened", {})
    for name in ("KTPU_DEVICE", "KTPU_MACHINE", "KTPU_POISON", "KTPU_SEED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def own(fresh: None) -> ktpu.Session:
    """A device of this test alone, so that its books start empty."""
    return ktpu.device("golden", machine="tiny")


def test_the_default(fresh: None) -> None:
    session = ktpu.device()
    assert (session.name, session.machine.name) == ("golden", "small")
    assert ktpu.device() is session
    assert ktpu.tensor(1).device is session


def test_the_environment_chooses(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTPU_MACHINE", "duo")
    monkeypatch.setenv("KTPU_SEED", "3")
    assert repr(ktpu.device()) == "device('golden', machine='duo', seed=3)"
    assert ktpu.device(machine="tiny").machine.name == "tiny"


def test_a_statement_and_a_context(fresh: None) -> None:
    small = ktpu.device("golden")
    duo = ktpu.device("golden", machine="duo")  # a statement: stays
    assert ktpu.device() is duo
    with ktpu.device("golden", machine="tiny") as tiny:
        assert ktpu.device() is tiny
        with ktpu.device("golden"):
            assert ktpu.device() is small
            with tiny:
                assert ktpu.device() is tiny
            assert ktpu.device() is small
        assert ktpu.device() is tiny
        ktpu.device("golden", machine="duo")  # a statement inside: until the context ends
        assert ktpu.device() is duo
    assert ktpu.device() is duo
    with pytest.raises(RuntimeError), ktpu.device("golden", machine="tiny"):
        raise RuntimeError
    assert ktpu.device() is duo
    with ktpu.device("golden", machine="duo"), ktpu.device("golden", machine="duo"):
        pass
    assert ktpu.device() is duo


def test_the_same_request_is_the_same_device(fresh: None) -> None:
    with ktpu.device("golden", machine="duo"):
        a = ktpu.tensor([1.0])
    with ktpu.device("golden", machine="duo"):
        b = ktpu.tensor([2.0])
    assert (a + b).numpy().tolist() == [3]
    assert ktpu.device("golden", machine="duo", seed=1) is not ktpu.device("golden", machine="duo")


def test_a_machine_of_ones_own(fresh: None) -> None:
    machine = Machine("mine", "V C\nH M", lanes=8)
    with ktpu.device(machine=machine):
        assert (ktpu.full((3, 4), 2) @ ktpu.full((2, 4), 1)).numpy().tolist() == [[8, 8]] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "abacus"}, "no device is called 'abacus'; there are golden, rtl"),
        ({"machine": "huge"}, "no machine is called 'huge'; there are tiny, small, duo, quad"),
        ({"name": "golden", "noise": 1}, "no option 'noise'; there are poison, seed"),
    ],
)
def test_unknown_names(fresh: None, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(CallError, match=message):
        ktpu.device(**arguments)
    assert _Current.session is None


def test_results_stay_on_the_device_of_their_operands(fresh: None) -> None:
    with ktpu.device("golden", machine="duo") as duo:
        x = ktpu.tensor(np.ones((4, 4)))
    with ktpu.device("golden", machine="tiny") as tiny:
        y = ((x @ x + 1) * x).softmax()
        assert y.device is duo
        assert tiny.stats().dispatches == 0
    assert (duo.stats().dispatches, duo.stats().fused) == (3, 1)


def test_kernels_refuse_operands_they_cannot_run_on(fresh: None) -> None:
    x = ktpu.tensor(np.ones((4, 4)))
    with ktpu.device("golden", machine="duo"):
        y = ktpu.tensor(np.ones((4, 4)))
    for call in (kernels.matmul, kernels.matmul.plan):
        with pytest.raises(CallError, match="matmul: operands on two devices") as caught:
            call(x, y)
        assert "machine='small'" in str(caught.value)
        assert "machine='duo'" in str(caught.value)
        with pytest.raises(CallError, match=r"of type numpy\.ndarray"):
            call(x, np.ones((4, 4)))
    assert ktpu.tensor(y) is not y
    assert (x @ ktpu.tensor(y)).numpy()[0, 0] == 4


def test_memory_follows_references(own: ktpu.Session) -> None:
    def live() -> int:
        return ktpu.stats().memory.live

    assert live() == 0
    x = ktpu.tensor(np.ones((4, 17)))
    assert live() == 4 * 64
    y = x.view((2, 2, 17))
    del x
    assert live() == 4 * 64
    del y
    assert live() == 0
    z = ktpu.zeros((0, 5))
    assert live() == 0
    assert z.nbytes == 0


def test_pinning(own: ktpu.Session) -> None:
    w = ktpu.tensor(np.ones((4, 16)))
    address = w.storage.address
    assert w.pin() is w
    w.view((4, 16)).pin()
    del w
    gc.collect()
    memory = ktpu.stats().memory
    assert (memory.live, memory.pinned) == (128, 128)
    ktpu.empty_cache()
    assert ktpu.stats().memory.live == 128
    (w,) = own.pinned
    assert w.storage.address == address
    assert w.numpy().tolist() == [[1] * 16] * 4
    w.unpin()
    assert ktpu.stats().memory.pinned == 128  # it was pinned twice
    w.unpin()
    assert ktpu.stats().memory.pinned == 0
    with pytest.raises(CallError, match="not pinned"):
        w.unpin()
    del w
    assert ktpu.stats().memory.live == 0


def test_memory_is_flat_over_many_calls(own: ktpu.Session) -> None:
    x = ktpu.tensor(np.ones((4, 4)))
    used: set[int] = set()
    for call in range(1000):
        y = (x * float(call)) if call % 2 else x.relu()
        y.numpy()
        if call >= 2:
            used.add(ktpu.stats().memory.used)
        del y
    assert len(used) == 1
    ktpu.empty_cache()
    assert ktpu.stats().memory.used == x.nbytes


def test_a_full_memory_says_so_and_recovers(own: ktpu.Session) -> None:
    x = ktpu.tensor(np.ones((4, 4)))
    (x + x).numpy()
    big = ktpu.zeros((own.machine.dram_words - 16, 16))
    with pytest.raises(OutOfMemory) as caught:
        ktpu.zeros((1024, 16))
    text = str(caught.value)
    assert "tensor (1024, 16) fp16 needs 32768 bytes" in text
    assert f"1 x tensor {big.shape} fp16: {big.nbytes} bytes" in text
    assert "ktpu.zeros((1024, 16))" in text
    del big
    assert (x + x).numpy().tolist() == [[2] * 4] * 4


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_exception_in_the_middle_of_a_run(
    own: ktpu.Session, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    x = ktpu.tensor(np.arange(64).reshape(4, 16))
    want = (x * x).numpy()
    before = ktpu.stats()
    from kohakutpu.model.unit import Unit

    def interrupted(self: Unit, semaphore: int) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Unit, "post", interrupted)
        with pytest.raises(error):
            (x * x).numpy()
    gc.collect()
    after = ktpu.stats()
    assert after.memory.live == before.memory.live
    assert after.dispatches == before.dispatches
    assert np.array_equal((x * x).numpy(), want)
    assert ktpu.stats().memory.used == before.memory.used


def test_a_fault_names_the_kernel_line(own: ktpu.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    x = ktpu.tensor(np.arange(64).reshape(4, 16))
    from kohakutpu.model.execute import Execute
    from kohakutpu.model.faults import Violation

    def broken(self: Execute, unit: Any, args: Any) -> Any:
        raise Violation("L1_RANGE", "word 9000 of 8192", word=9000, words=8192)

    with monkeypatch.context() as patch:
        patch.setattr(Execute, "run", broken)
        product = x * x
        with pytest.raises(MachineFault) as caught:
            product.numpy()
    text = str(caught.value)
    assert "L1_RANGE in vector core" in text
    assert "word 9000 of 8192" in text
    assert "exec rows=" in text
    assert "c[e] <<= a[e] * b[e]" in text
    assert "note: `mul` is called here\n    product = x * x\n" in text
    assert caught.value.numbers == {"word": 9000, "words": 8192}
    assert (x * x).numpy()[0, 3] == 9
    assert ktpu.stats().dispatches == 1
    assert product.numpy()[0, 3] == 9


def test_threads_share_a_device(own: ktpu.Session) -> None:
    def work(number: int) -> bool:
        x = ktpu.Tensor.upload(own, np.full((5, number + 3), number, np.float16), "fp16")
        return all(((x + i) * 2).numpy()[0, 0] == 2 * (number + i) for i in range(10))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(12)))
    assert ktpu.stats().memory.live == 0


def test_counters(own: ktpu.Session) -> None:
    ktpu.reset_stats()
    x, w = ktpu.tensor(np.ones((8, 64))), ktpu.tensor(np.ones((4, 64)))
    y = x @ w
    stats = ktpu.stats()
    assert stats.dispatches == 1
    assert stats.macs == 8 * 4 * 64  # no padding at these sizes
    assert stats.memory_read >= (8 + 4) * 4  # words of both operands
    assert stats.memory_written == 8  # rows of one word
    assert stats.cycles > 0
    assert 0 < stats.engines["GEMM"].busy < stats.cycles
    assert stats.instructions > 0
    assert (stats.compiles, stats.cache_hits) == (1, 0)
    assert (stats.device, stats.machine) == ("golden", "tiny")
    again = x @ w
    assert (ktpu.stats().compiles, ktpu.stats().cache_hits) == (1, 1)
    assert ktpu.stats().macs == 2 * stats.macs
    assert again.shape == y.shape
    text = str(ktpu.stats())
    for words in ("golden, machine tiny", "dispatches", "GEMM", "stalled", "MACs", "4,096"):
        assert words in text
    ktpu.reset_stats()
    stats = ktpu.stats()
    assert (stats.dispatches, stats.macs, stats.compiles, stats.engines) == (0, 0, 0, {})
    assert stats.memory.peak == stats.memory.used
    assert y.numpy()[0, 0] == 64


def test_sync_and_close(own: ktpu.Session) -> None:
    x = ktpu.tensor([1.0])
    ktpu.sync()
    own.close()
    for call in (lambda: x.numpy(), lambda: x + x, own.sync):
        with pytest.raises(CallError, match="closed"):
            call()
    assert "(closed)" in repr(own)
    again = ktpu.device("golden", machine="tiny")
    assert again is not own
    assert ktpu.tensor([1.0]).numpy() == 1
