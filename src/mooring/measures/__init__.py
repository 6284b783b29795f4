"""Measures of a run: how full, how long pods waited and why, attempts, preemptions, fragmentation, cost.

One :class:`~mooring.measures.meter.Meter` reads what happens, in order of time. A simulation feeds it while it runs
(:mod:`mooring.measures.observer`), a record when it is read (:mod:`mooring.measures.of_record`). Its answer is a
:class:`~mooring.measures.results.Measures`: one row, and columns over time of a bounded number of samples.
"""
