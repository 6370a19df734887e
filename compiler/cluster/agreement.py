"""Clusters of a group are lowered one by one: check that they agree on what one fills for all."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.cluster.context import ClusterLowering
from compiler.cluster.multicast import Multicast
from compiler.cluster.orders import Handshake
from kohakuaccel.errors import InternalError


def check_agreement(group: Multicast, lowerings: Mapping[int, ClusterLowering]) -> None:
    """Check places and semaphores of common windows.

    Raises
    ------
    InternalError
        If a cluster has other ones than the issuer believes.
    """
    issuer = lowerings[group.issuer]
    for node in group.receivers:
        receiver = lowerings[node]
        if _places(receiver) != _places(issuer):
            raise InternalError(f"windows of clusters {group.issuer} and {node} differ")
        if _handshakes(receiver, group.issuer, node) != _handshakes(issuer, group.issuer, node):
            raise InternalError(f"semaphores of clusters {group.issuer} and {node} differ")


def _places(lowering: ClusterLowering) -> list[tuple[str, int, int, int]]:
    return [
        (name, ring.base, ring.size, ring.slots) for ring, name in lowering.residency.common.items()
    ]


def _handshakes(lowering: ClusterLowering, writer: int, reader: int) -> list[list[Handshake]]:
    return [
        [*order.streams.values(), *order.panels.values()]
        for order in lowering.orders
        if (order.writer, order.reader) == (writer, reader)
    ]
