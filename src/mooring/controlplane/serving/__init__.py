"""The API over HTTP. Requests are read, authorised and translated here; ``registry`` carries them out."""
