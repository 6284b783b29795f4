"""Contracts of the extension points, statuses, the plugin registry and the runtime that calls plugins in order."""
