"""The version, for whoever inside the package needs it: the front door is for people outside."""

__version__ = "0.1.0"
