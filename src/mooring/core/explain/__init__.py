"""Explanations: why a pod is placed or not, what would help, and their rendering.

Nothing here decides or contains rules: a session decides, plugins provide facts and remedies.
"""
