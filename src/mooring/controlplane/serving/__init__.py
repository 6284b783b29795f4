"""The API over HTTP. A request is read, allowed and translated here; what it means is decided in ``registry``."""
