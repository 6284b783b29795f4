"""Shared GPUs: requests of pods, free GPUs, assignment of GPUs, and fragmentation of nodes.

The plugins whose names begin with ``Gpu`` use it. Devices claimed through the API group ``resource.k8s.io`` are in
``mooring.core.plugins.devices``.
"""
