"""Bringing the storage of a unit to memory, with instructions that every case relies on.

Entries of L1A and L1B are multiplied by rows with a single 1, which shows the worth of every
element; the accumulator leaves as FP32; vector L1 leaves as it is, and registers go through it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kohakutpu.config import KBLOCK, LANES
from kohakutpu.conformance.reference.storage import Store
from kohakutpu.conformance.reference.unit import Cluster, Core, Unit
from kohakutpu.conformance.shorthand import (
    destination,
    drain,
    execute,
    fill,
    gemm,
    source,
    vdrain,
)
from kohakutpu.numerics.scalar import mx

if TYPE_CHECKING:
    from kohakutpu.conformance.draft import Draft

UNIT_ENTRIES = KBLOCK // LANES
SHOWN = 12
"""Cells of a long run that are shown from each of its ends."""


def unit_rows() -> bytes:
    """Return 8 entries in packed order whose row `i` is 1 at element `i` and 0 elsewhere."""
    blocks = [([64 * (i == k) for k in range(KBLOCK)], 127) for i in range(KBLOCK)]
    return mx.pack_region([blocks[i : i + LANES] for i in range(0, KBLOCK, LANES)])


def runs(addresses: Iterable[int]) -> list[tuple[int, int]]:
    """Return first address and length of every run of consecutive addresses; long ones in part."""
    found: list[list[int]] = []
    for address in sorted(addresses):
        if found and found[-1][-1] == address - 1:
            found[-1].append(address)
        else:
            found.append([address])
    result: list[tuple[int, int]] = []
    for run in found[:SHOWN] + found[SHOWN:][-SHOWN:]:
        if len(run) <= 2 * SHOWN:
            result.append((run[0], len(run)))
        else:
            result += [(run[0], SHOWN), (run[-SHOWN], SHOWN)]
    return result


def _known(store: Store[Any]) -> list[tuple[int, int]]:
    near = {address + step for address in store.written for step in (-1, 0, 1)}
    return runs(address for address in near if store.peek(address) is not None)


def show(draft: Draft, node: int, unit: Unit) -> None:
    """Add to a unit's program what brings to memory the cells it wrote and those next to them.

    Parameters
    ----------
    draft : Draft
        The case.
    node : int
        The unit.
    unit : Unit
        The reference's idea of it, `written` holding what counts.
    """
    if unit.kind == "C":
        _show_cluster(draft, node, unit.cluster)
    else:
        _show_core(draft, node, unit.core)


def _show_cluster(draft: Draft, node: int, cluster: Cluster) -> None:
    program = draft.program(node)
    for first, count in _known(cluster.accumulator):
        place = draft.output(2 * count)
        program.chain(drain(acc=first, gn=count, mem=place, order="tile"))
    for side in "AB":
        store = cluster.l1[side]
        near = {address + step for address in store.written for step in (-1, 0, 1)}
        pieces = runs(e for e in near if None not in (store.peek(e) or [None]))
        if pieces:
            rows = draft.data(unit_rows())
            other = "B" if side == "A" else "A"
            program.chain(fill(other, mem=rows, g=UNIT_ENTRIES, mode="packed"))
        for first, count in pieces:
            show_entries(draft, node, side, first, count)


def show_entries(draft: Draft, node: int, side: str, first: int, count: int) -> None:
    """Add what multiplies entries by the unit rows in the other buffer and sends the products."""
    program = draft.program(node)
    if side == "A":
        gm, gn = count, UNIT_ENTRIES
        program.chain(gemm(a=first, gm=gm, gn=gn))
    else:
        gm, gn = UNIT_ENTRIES, count
        program.chain(gemm(b=first, gm=gm, gn=gn))
    stride = -(-gn // 2)
    place = draft.output(LANES * gm * stride)
    program.chain(drain(gm=gm, gn=gn, mem=place, stride=stride))


def _show_core(draft: Draft, node: int, core: Core) -> None:
    for first, count in _known(core.l1):
        show_words(draft, node, first, count)
    for first, count in _known(core.registers):
        cols = count * core.lanes
        copy = execute(cols=cols, a=source("reg", first), dst=destination("l1f"))
        draft.program(node).chain(copy)
        show_words(draft, node, 0, -(-cols // 8))


def show_words(draft: Draft, node: int, first: int, count: int) -> None:
    """Add what sends words of a vector L1 to memory."""
    draft.program(node).chain(vdrain(l1=first, cols=16 * count, mem=draft.output(count)))
