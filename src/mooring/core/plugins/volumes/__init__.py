"""Volumes of pods: claims, which volumes reach which nodes, and what to bind. Four plugins in ``plugins`` use this."""
