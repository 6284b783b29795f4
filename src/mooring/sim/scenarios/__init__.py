"""The stories that come with mooring: one file each, in Python or YAML. ``mooring scenario list`` names them."""
