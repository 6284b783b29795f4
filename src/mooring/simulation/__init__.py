"""Simulation: the live scheduler in virtual time; a story with a workload goes in, what became of its pods comes out.

The queue, the engine, the plugins, bindings and preemption are those of ``mooring run``. Nodes, and everything that a
story creates step by step, live on the embedded control plane with its controllers and kubelets, as in ``mooring
scenario run``. The pods of a workload do not: ``streamed_pods`` plays the API server and the kubelets for them.
"""
