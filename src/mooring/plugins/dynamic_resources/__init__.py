"""DynamicResources: give pods the devices that their ResourceClaims ask for.

``pools`` gathers what drivers publish for a node, ``cel`` judges single devices, ``allocator`` searches for a
complete choice, ``claims`` finds a pod's claims and what is in use, ``extended`` turns extended resources into a
claim, and ``plugin`` ties them to the scheduling cycle.
"""
