"""Verilog from components: what of a memory is written, and that the collector is back at work."""

import gc
import re

from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.sim.emit import emit


class Store(wiring.Component):
    def __init__(self, init: list[int]) -> None:
        self._init = init
        super().__init__({"address": In(2), "data": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.store = store = memory.Memory(shape=8, depth=4, init=self._init)
        port = store.read_port()
        store.write_port()
        m.d.comb += [port.addr.eq(self.address), self.data.eq(port.data), port.en.eq(1)]
        return m


def initial(text: str) -> list[int]:
    return [int(value, 16) for value in re.findall(r"\S+\s*\[\d+\] = 8'h([0-9a-f]+);", text)]


def test_initial_content_is_written_unless_it_is_zeros() -> None:
    assert initial(emit(Store([3, 0, 9]))) == [3, 0, 9, 0]
    assert initial(emit(Store([]))) == []
    assert initial(emit(Store([0, 7]))) == [0, 7, 0, 0]


def test_the_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    emit(Store([]))
    assert gc.isenabled()
    gc.disable()
    try:
        emit(Store([]))
        assert not gc.isenabled()
    finally:
        gc.enable()
