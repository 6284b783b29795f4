"""The scheduling queue as a state machine: events in, pods out; no threads, no sleeping."""
