"""Devices of ResourceClaims: what drivers publish, what is in use, and the search for a free choice.

``pools`` gathers what drivers publish for a node, ``cel`` judges single devices, ``allocator`` searches for a
complete choice, ``claims`` finds a pod's claims and what is in use, ``extended`` turns extended resources into a
claim. The plugin that uses them is ``mooring.plugins.dynamic_resources``.
"""
