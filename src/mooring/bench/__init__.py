"""Measurements: generated workloads, runners and reports."""
