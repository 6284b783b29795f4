"""Presentation: the page and its server, reports, pictures, widgets.

The page itself is TypeScript, in ``ui/`` at the root; its bundle is built into ``page/``. It holds the columns of the
whole record, so moving through time needs no request. The server sends columns and answers questions.
"""
