"""Replays, scenarios in virtual time, and questions that begin with "what if"."""
