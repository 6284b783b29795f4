"""Questions: explain, capacity, drill, plan, diff, lint, tune, sweep, shadow; what ``import mooring`` offers.

Every question is put to a session or to a fork of one. No question changes the cluster that it is asked about.
"""
