"""Beside a live scheduler: what it does is watched, decided again, and compared. Nothing is written to its cluster.

Here are the cluster as it is seen, the moments around a decision, the verdicts, their sums, and how they are shown.
Sockets and options belong to the command.
"""
