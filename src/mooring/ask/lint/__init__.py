"""Linting: mistakes of intent in manifests, found before they are applied, each with file, line and fix.

A rule is a function with a name, a severity and a docstring, which is also its page in the documentation. What a node
can take is asked of the scheduler's own plugins; no rule knows better.
"""
