"""Code from outside: the Python files, modules and entry points that a user names."""
