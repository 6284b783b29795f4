"""The objects in memory, their history, selectors, watches, and the copy on disk."""
