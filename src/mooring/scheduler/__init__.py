"""The live loop: pop, decide, assume, bind; leader election; the process's own endpoints."""
