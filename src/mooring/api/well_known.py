"""Names of labels, taints and annotations that Kubernetes defines."""

from __future__ import annotations

# Labels of nodes: https://kubernetes.io/docs/reference/labels-annotations-taints
HOSTNAME = "kubernetes.io/hostname"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"

# Taints for a node's condition. The node controller sets and removes them.
CONDITION_PREFIX = "node.kubernetes.io/"
NOT_READY = CONDITION_PREFIX + "not-ready"
UNREACHABLE = CONDITION_PREFIX + "unreachable"
UNSCHEDULABLE = CONDITION_PREFIX + "unschedulable"
MEMORY_PRESSURE = CONDITION_PREFIX + "memory-pressure"
DISK_PRESSURE = CONDITION_PREFIX + "disk-pressure"
PID_PRESSURE = CONDITION_PREFIX + "pid-pressure"
NETWORK_UNAVAILABLE = CONDITION_PREFIX + "network-unavailable"

# An annotation of static pods, which the kubelet runs from its own files, without a scheduler.
MIRROR = "kubernetes.io/config.mirror"
