"""Tuning: search weights, strategies and plugin arguments for stated objectives, on a simulation of one's own trace.

A point is a configuration with what was measured under it. The default configuration is always one of the points, and
points that look good are tried again on a part of the trace that the search has not seen.
"""
