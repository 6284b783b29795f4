"""The in-tree plugins, one file each; nothing here knows the queue, the API server or the clock on the wall."""
