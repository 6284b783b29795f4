"""The decision, pure: a cluster as columns, the rules, the queue, and the session.

| part | what it knows |
|---|---|
| ``cluster`` | a cluster as people who write Python handle it |
| ``explain/`` | why a pod goes where it goes, or nowhere, and what would help |
| ``session`` | state, nominations, profiles, clock: put, decide, commit, undo, fork |
| ``engine/``, ``queue/`` | one decision; which pod is next |
| ``plugins/`` | the rules, one file each, with what several of them share (devices, volumes, gpus) |
| ``config/`` | KubeSchedulerConfiguration, versions, loading of plugins |
| ``framework/`` | contracts of the extension points, and the runtime that calls plugins |
| ``state/`` | the cluster as columns: snapshots, forks, assume / confirm / forget |

Nothing here imports asyncio, sockets, threads, random numbers or a wall clock.
"""
