"""Sweeps: one command for many parameters and seeds, on all cores or on many machines, and one table of the results.

A sweep is a file that says which command is run over which values. A row is one such run. It is known by the hash of
what it is made of, so that a sweep can go on where it was stopped, and rows from many machines can be put together.
There is no engine for many machines here: any ``concurrent.futures.Executor`` will do.
"""
