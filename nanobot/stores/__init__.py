"""Where state lives and who runs what: implementations of the ports in `nanobot.store`."""
