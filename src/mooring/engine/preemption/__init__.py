"""Preemption: on which node evicting which less important pods makes room. Upstream's framework/preemption."""
