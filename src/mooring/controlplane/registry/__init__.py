"""The served API: the verbs on objects, and one module per API group with everything about its kinds."""
