"""What people look at: the page and its server, reports, pictures, widgets.

The page itself is TypeScript, in ``ui/`` at the root; its bundle is built into ``page/``. It holds the columns of the
whole record, so that moving through time asks nobody. The server sends columns and answers questions.
"""
