"""Registers between the stages of a pipeline, and what goes beside it."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory


class Stages:
    """The stages of one pipeline: each call is one rank of registers.

    Parameters
    ----------
    m : amaranth.hdl.Module
        Where the registers go, in the domain ``sync``. They have no reset: what a pipeline
        holds before its first operands is nobody's data.

    Attributes
    ----------
    count : int
        Ranks so far.
    """

    def __init__(self, m: Module) -> None:
        self._m = m
        self.count = 0

    def __call__(self, before: SimpleNamespace | None = None, /, **values: Any) -> SimpleNamespace:
        """Return values a clock edge later.

        Parameters
        ----------
        before : SimpleNamespace, optional
            What the stage before returned: passed on as it is. Whatever nobody reads any more
            costs nothing, the tools remove it.
        **values : ValueLike
            What this stage adds or replaces.

        Returns
        -------
        SimpleNamespace
            Registers, under the same names.
        """
        self.count += 1
        registers = {}
        for name, value in {**(vars(before) if before else {}), **values}.items():
            register = Signal(value.shape(), name=f"{name}_{self.count}", reset_less=True)
            self._m.d.sync += register.eq(value)
            registers[name] = register
        return SimpleNamespace(**registers)


def delayed(m: Module, value: Any, cycles: int, *, reset: bool = False) -> Any:
    """Return `value`, `cycles` clock edges later.

    Parameters
    ----------
    m : amaranth.hdl.Module
        Where the registers go. Not inside ``m.If``: they would move only while it holds.
    value : amaranth.hdl.ValueLike
        Anything with a shape.
    cycles : int
        How many ranks of registers.
    reset : bool
        Whether they start at zero after a reset: for valid bits.
    """
    for rank in range(cycles):
        register = Signal(value.shape(), name=f"delayed_{rank}", reset_less=not reset)
        m.d.sync += register.eq(value)
        value = register
    return value


def kept(m: Module, name: str, value: Any, cycles: int) -> Any:
    """Return `value`, `cycles` clock edges later, from a memory: for many bits and many cycles.

    A rank of registers takes a wire for each bit, and an FPGA has fewer wires than registers.

    Parameters
    ----------
    m : amaranth.hdl.Module
        Where the memory goes. Not inside ``m.If``: it would move only while that holds.
    name : str
        Of its submodule.
    value : amaranth.hdl.ValueLike
        Anything with a shape.
    cycles : int
        Three at least.
    """
    m.submodules[name] = memory = Memory(
        shape=value.shape(),
        depth=cycles,
        init=[],
        attrs={"ram_style": "block", "no_rw_check": 1},  # the two places are never the same
    )
    write, read = memory.write_port(), memory.read_port()
    place = Signal(range(cycles), name=f"{name}_place")
    following = Mux(place == cycles - 1, 0, place + 1)
    m.d.sync += place.eq(following)
    m.d.comb += [
        write.en.eq(1),
        write.addr.eq(place),
        write.data.eq(value),
        read.en.eq(1),
        read.addr.eq(following),  # the next one to be overwritten
    ]
    return read.data
