"""Pod groups: one attempt at all pods of a group, and room for a group as a whole."""
