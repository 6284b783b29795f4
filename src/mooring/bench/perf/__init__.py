"""Kubernetes' scheduler_perf workloads: definitions, steps, measurements and their display."""
