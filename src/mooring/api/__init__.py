"""Kubernetes' objects as typed structs, quantities, selectors, defaults; and general helpers.

No behaviour of the scheduler is here. ``clock``, ``errors``, ``text``, ``memory`` and ``version`` are general helpers.
"""
