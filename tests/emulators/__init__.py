"""Real servers on loopback that speak the platforms' protocols, for tests and benchmarks."""
