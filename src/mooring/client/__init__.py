"""Talking to an API server: configuration, REST, watches, informers."""
