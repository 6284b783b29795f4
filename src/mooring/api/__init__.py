"""Kubernetes' objects as typed structs, quantities, selectors, defaults; and what knows nothing of Kubernetes.

No behaviour of the scheduler is here. ``clock``, ``errors``, ``text``, ``memory`` and ``version`` are general helpers.
"""
