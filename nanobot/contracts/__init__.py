"""Test suites that any implementation of a port can run; shipped so that others can test theirs."""
