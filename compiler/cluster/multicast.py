"""Clusters that want the same words: who fetches for whom, and what that asks of memory ports.

The instances of a stage are cut along one axis. Clusters that have equally many values of it go
through loops of the same shape, so whatever does not depend on that axis is the same for all of
them, window by window. One of them, the *issuer*, fills it for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.estimate import port_of
from kohakutpu.config import Machine


@dataclass(frozen=True, slots=True)
class Multicast:
    """Clusters with equally many instances.

    Parameters
    ----------
    members : tuple of int
        Their nodes.
    issuer : int
        The one that fills what all of them want.
    """

    members: tuple[int, ...]
    issuer: int

    @property
    def receivers(self) -> tuple[int, ...]:
        """All but the issuer."""
        return tuple(node for node in self.members if node != self.issuer)


@dataclass(frozen=True, slots=True)
class Ports:
    """How clusters that fill in step load the memory ports.

    ``loads`` has, for each port in use, how many clusters fill through it, and how many fill for
    others as well.
    """

    loads: tuple[tuple[int, int], ...]

    @property
    def busiest(self) -> int:
        """Clusters at the port that most use."""
        return max(clusters for clusters, _ in self.loads)

    def words(self, own: float, common: float) -> float:
        """Return the words of the busiest port, of so many that clusters want alone or together."""
        return max(clusters * own + issuers * common for clusters, issuers in self.loads)


def multicasts(
    clusters: Sequence[int], lengths: Sequence[int], machine: Machine
) -> list[Multicast]:
    """Gather clusters with shares of one length, a cluster that has none of its kind by itself.

    The issuer is at the memory port that has least to do.
    """
    ports = Counter(port_of(node, machine) for node in clusters)
    result: list[Multicast] = []
    for length in dict.fromkeys(lengths):
        members = tuple(c for c, mine in zip(clusters, lengths, strict=True) if mine == length)
        issuer = min(members, key=lambda node: ports[port_of(node, machine)])
        ports[port_of(issuer, machine)] += 1
        result.append(Multicast(members, issuer))
    return result


def ports_of(groups: Sequence[Multicast], machine: Machine) -> Ports:
    """Return the load of the memory ports."""
    clusters = Counter(port_of(node, machine) for group in groups for node in group.members)
    issuers = Counter(port_of(group.issuer, machine) for group in groups)
    return Ports(tuple((count, issuers[port]) for port, count in clusters.items()))
