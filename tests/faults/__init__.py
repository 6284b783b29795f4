"""A soak in virtual time: real scheduler processes on machines, clocks, disks and a network that a plan breaks.

One seed is one run, event by event. A run that breaks a promise is made again, shorter and shorter, until only what
is needed for it is left.
"""
