"""Linting: mistakes of intent in manifests, found before they are applied, each with file, line and fix.

A rule is a function with a name, a severity and a docstring, which is also its entry in the documentation. The
scheduler's own plugins decide what a node can take; rules do not repeat them.
"""
