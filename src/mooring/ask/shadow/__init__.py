"""The shadow of a live scheduler: its decisions are watched, repeated, and compared. Nothing is written to its cluster.

The package has the observed cluster, the moments around a decision, the verdicts, their summary, and its rendering.
Sockets and options belong to the command.
"""
