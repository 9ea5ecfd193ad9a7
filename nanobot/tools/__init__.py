"""The agent's tools. `toolbox.standard` builds them all; each file holds one family."""
