"""mooring: a Kubernetes scheduler in Python.

One engine that makes kube-scheduler's decisions and says why. Plugin and
extender authors import :mod:`mooring.sdk`; tests import :mod:`mooring.testing`.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
