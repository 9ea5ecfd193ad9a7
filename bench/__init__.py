"""The benchmark: the same work, on the same machine, in one run, by a bare floor, by nanobot and by a peer."""
