"""Clients of the API server that act on a cluster: fake kubelets, controllers, garbage collection."""
