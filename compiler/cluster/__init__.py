"""Contractions: the cluster's half of a stage, as FILL, GEMM and DRAIN with their semaphores."""

from compiler.cluster.context import ClusterContext, ClusterLowering
from compiler.cluster.lower import lower_cluster
from compiler.cluster.residency import Axis

__all__ = ["Axis", "ClusterContext", "ClusterLowering", "lower_cluster"]
