"""The cluster as columns: the node table, its snapshots and forks, and assume / confirm / forget."""
