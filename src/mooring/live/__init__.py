"""The scheduler in a cluster: scheduling and binding cycles, events, lease, health, metrics, logs.

``process`` is what ``mooring run`` starts, ``scheduler`` puts one scheduler together, ``schedule_one`` and ``binding``
are the way of a pod, as in upstream's ``schedule_one.go``.
"""
