"""Kubernetes' scheduler_perf workloads: definitions, the steps they run, what is measured, and how it is shown."""
