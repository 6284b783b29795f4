"""How full nodes are and would be: arithmetic that the resource plugins share. No plugin lives here."""
