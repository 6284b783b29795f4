"""Shared GPUs: what pods ask for, what is left of every GPU, which GPUs a pod gets, and how fragmented a node is.

The plugins whose names begin with ``Gpu`` are made of this. Devices that are claimed through the API group
``resource.k8s.io`` are in ``mooring.core.plugins.devices``.
"""
