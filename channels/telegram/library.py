"""The first import of python-telegram-bot, made cheaper and told to be quiet; everything else here imports it later."""

import os
import sys

# The library warns about its own old meaning of times unless it is told that the new one is understood.
os.environ.setdefault("PTB_TIMEDELTA", "true")
# It imports httpx, which loads a command line (click, rich, pygments: 9 MB, 0.2 s) where those happen to be installed,
# and by its own design makes do without that module where it cannot be had.
_whole = "httpx" in sys.modules or "httpx._main" in sys.modules
if not _whole:
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
try:
    import telegram  # noqa: F401 - for its effect
finally:
    if not _whole:
        del sys.modules["httpx._main"]
