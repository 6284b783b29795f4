"""Kueue's admission by quotas: the quota tree, flavors, preemption and the admission cycle, without an API server."""
