"""The in-tree plugins, one file each; none depends on the queue, the API server or the wall clock."""
