"""The datapath of a cluster."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from hw.cluster.accumulator import Accumulator
from hw.cluster.drain import DrainEngine
from hw.cluster.entries import Entries
from hw.cluster.fill import READS, FillEngine
from hw.cluster.gemm import GemmEngine
from hw.cluster.landing import Landing
from hw.cluster.tensor import TensorArray
from hw.common.interfaces import Datapath
from hw.common.resting import resting
from hw.noc.flit import Kind
from kohakutpu.config import Machine


class ClusterDatapath(wiring.Component):
    """Storage and engines of one cluster; a `hw.common.interfaces.Datapath`.

    Parameters
    ----------
    machine : Machine
        Sizes, and who may send.
    node : int
        Which cluster.

    Raises
    ------
    ValueError
        If the node is no cluster of the machine.
    """

    def __init__(self, machine: Machine, node: int) -> None:
        clusters = [cluster.id for cluster in machine.of_kind("C")]
        if node not in clusters:
            raise ValueError(f"node must be one of the clusters {clusters}, not {node!r}")
        self._machine, self._node = machine, node
        super().__init__(Datapath("C"))

    def elaborate(self, platform: object) -> Module:
        """Connect landing, L1, tensor units, accumulator and the three engines."""
        m = Module()
        machine = self._machine
        m.submodules.landing = landing = Landing(machine)
        m.submodules.fill = fill = FillEngine(self._node, machine)
        m.submodules.gemm = gemm = GemmEngine(machine)
        m.submodules.drain = drain = DrainEngine(self._node, machine)
        m.submodules.l1a = l1a = Entries(machine.l1_entries, machine.k_per_cycle)
        m.submodules.l1b = l1b = Entries(machine.l1_entries, machine.k_per_cycle)
        tensor = TensorArray(machine.k_per_cycle)
        m.submodules.tensor = resting(m, platform, tensor, "tensor", tensor.step.valid)
        m.submodules.accumulator = accumulator = Accumulator(
            machine.acc_subtiles, machine.k_per_cycle
        )
        engines = (self.engine_0, self.engine_1, self.engine_2)
        for mine, inner in zip(engines, (fill, gemm, drain), strict=True):
            connect(m, flipped(mine), inner.engine)
        connect(m, flipped(self.landing), landing.i)
        flit, fields = self.landing.payload, self.landing.payload.fields.data
        mine = (fields.requester == self._node) & (fields.tag == READS)
        m.d.comb += [
            self.landed.eq(landing.landed),
            fill.landed.eq(
                self.landing.valid & self.landing.ready & (flit.kind == Kind.DATA) & mine
            ),
        ]

        for in_b, (entries, entry) in enumerate(((l1a, gemm.a), (l1b, gemm.b))):
            m.d.comb += [
                entries.write.eq(landing.write),
                entries.enable.eq(gemm.step.valid),
                entries.entry.eq(entry),
                entries.position.eq(gemm.position),
            ]
            with m.If(landing.in_b != in_b):
                m.d.comb += [entries.write.elements.eq(0), entries.write.scales.eq(0)]
        m.d.comb += [
            tensor.step.eq(gemm.step),
            tensor.a.eq(l1a.o),
            tensor.b.eq(l1b.o),
            gemm.ended.eq(tensor.ended),
            accumulator.enable.eq(tensor.enable),
            accumulator.place.eq(tensor.place),
            tensor.sums.eq(accumulator.o),
            accumulator.write_enable.eq(tensor.write_enable),
            accumulator.write_place.eq(tensor.write_place),
            accumulator.write.eq(tensor.write),
            drain.part.eq(accumulator.drained),
        ]
        connect(m, drain.read, accumulator.drain)
        return m
