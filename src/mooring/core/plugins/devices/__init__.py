"""Devices of ResourceClaims: what drivers publish, what is in use, and the search for a free choice.

``pools`` gathers what drivers publish for a node, ``allocated`` says what is in use, ``device_checks`` and ``cel``
judge single devices, ``search`` looks for a complete choice on one node, ``allocator`` does that node after node,
``results`` writes it down, ``claims`` finds a pod's claims, ``extended`` turns extended resources into a claim,
``binding`` stores what was decided. The plugin that uses them is ``mooring.core.plugins.dynamic_resources``.
"""
