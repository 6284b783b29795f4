"""The embedded control plane: a small API server for learning, tests and simulation, and what keeps a cluster alive.

Its rooms, each of which imports only those below it:

| room | what it knows |
|---|---|
| `server` | the front door: puts the rooms together and listens |
| `serving/` | HTTP: paths, bodies, tables, discovery, who may do what |
| `cluster/` | fake kubelets, controllers, garbage collection: users of the API, not parts of it |
| `registry/` | the verbs, and everything about each served kind |
| `storage/` | the objects, their history, watches, the disk |
| `types/` | fields and types, patches, encodings, refusals |
"""
