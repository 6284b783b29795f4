"""Events, metrics, logs and the decision log: renderings of what was decided, never decisions."""
