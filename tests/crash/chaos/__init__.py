"""Chaos: a real gateway under load while processes, model, disk, clock and sockets fail by a seeded schedule.

`python -m tests.crash.chaos --minutes 10 --seed 7` prints a table; exit status 1 names what was broken and the seed.
Everything is judged from outside: by what the clients saw, the session files, the database, and /proc.

plan.py what happens when (pure) · users.py what a channel has to offer to take part · websocket.py the pages ·
gateway.py the process · model.py disk.py what it depends on · run.py the driver · checks.py the judge · table.py
"""
