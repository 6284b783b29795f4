"""API objects as typed structs, quantities, selectors and defaults; no behaviour of the scheduler itself."""
