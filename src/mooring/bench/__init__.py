"""Measurements that users run on their machines and clusters: decisions, growth, scheduler_perf, simulations."""
