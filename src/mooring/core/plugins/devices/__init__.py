"""Devices of ResourceClaims: what drivers publish, what is allocated, and the search for an allocation.

``pools`` gathers the devices of a node, ``extended`` tracks allocated ones and turns extended resources into a claim,
``device_checks`` and ``cel`` judge single devices, ``search`` looks for a complete choice on one node, ``allocator``
does that node after node, ``claims`` finds a pod's claims, and ``binding`` stores the allocation. The plugin that uses
them is ``mooring.core.plugins.dynamic_resources``.
"""
