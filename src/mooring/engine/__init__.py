"""The decision: one snapshot, one pod, one profile in, one Decision out; preemption and explanations."""
