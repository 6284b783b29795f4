"""KubeSchedulerConfiguration: types, defaults, loading, conversion of old versions, validation."""
