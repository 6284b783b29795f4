"""Clusters, schedulers and decisions as people who write Python handle them: what ``import mooring`` offers.

The core's own classes are columns and indices. These are thin: a cluster here is the core's cluster with the pods that
wait, and a scheduler is an engine with its configuration. Parts that answer questions about clusters build on them.
"""
