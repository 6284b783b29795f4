"""The page: a record as columns, and the small server on loopback that shows them in a browser.

The page itself is TypeScript, in ``ui/`` at the root; its bundle is built into ``page/``. It holds the columns of the
whole record, so that moving through time asks nobody. The server sends columns and explains attempts.
"""
