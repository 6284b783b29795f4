"""Communication with an API server: configuration, requests, watches, informers. It knows nothing of scheduling."""
