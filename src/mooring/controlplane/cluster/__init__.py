"""What acts on a cluster from outside the API server: fake kubelets, controllers, garbage collection."""
