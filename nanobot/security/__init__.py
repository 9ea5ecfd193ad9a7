"""The floor under the tools: what they may reach, run, fetch, and the record of what they did."""
