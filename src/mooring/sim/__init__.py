"""Stories and simulations: one file format, played in virtual time or on a live cluster, narrated or not.

The queue, the engine, the plugins, bindings and preemption are those of ``mooring run``; only time, the API server and
the kubelets are simulated. ``imports/`` reads other tools' files, ``gym/`` is an environment for learning policies.
"""
