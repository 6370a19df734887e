"""Contractions: the cluster's half of a stage, as FILL, GEMM and DRAIN with their semaphores."""

from compiler.cluster.agreement import check_agreement
from compiler.cluster.context import ClusterContext, ClusterLowering
from compiler.cluster.lower import lower_cluster
from compiler.cluster.multicast import Multicast, Ports, multicasts, ports_of
from compiler.cluster.operands import Axis

__all__ = [
    "Axis",
    "ClusterContext",
    "ClusterLowering",
    "Multicast",
    "Ports",
    "check_agreement",
    "lower_cluster",
    "multicasts",
    "ports_of",
]
