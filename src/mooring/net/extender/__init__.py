"""Calling scheduler extenders as kube-scheduler does, and serving them."""
