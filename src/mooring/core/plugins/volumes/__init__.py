"""Volumes of pods: claims, topology of volumes, and binding. Used by four plugins in ``plugins``."""
