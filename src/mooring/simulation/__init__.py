"""Simulation: the live scheduler in virtual time, on a cluster that exists only in memory, with no API server between.

The queue, the engine, the plugins, bindings and preemption are those of ``mooring run``. What an API server and
kubelets would do to pods is in ``world``.
"""
