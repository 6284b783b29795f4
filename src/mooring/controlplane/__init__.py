"""The embedded API server, fake kubelets and the few controllers that a scenario needs."""
