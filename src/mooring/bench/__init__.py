"""What users measure on their machines and clusters: decisions, growth, scheduler_perf, simulations."""
