"""One module per API group (four for the core group), with everything about its kinds.

To serve another kind, define it in its group's module; ``catalog`` finds it there. A new group is a new module, which
``catalog.GROUPS`` names.
"""
