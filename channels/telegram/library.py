"""The first import of python-telegram-bot, made cheaper and told to be quiet; everything else here imports it later."""

import os
import sys

# The library warns about its own old meaning of times unless it is told that the new one is understood.
os.environ.setdefault("PTB_TIMEDELTA", "true")
# What it imports where it happens to be installed, and by its own design makes do without where it cannot be had.
_WITHHELD = {
    "httpx._main": "httpx",  # httpx's command line: click, rich, pygments; 9 MB, 0.2 s
    "cryptography": "cryptography",  # for passports that people show to bots; 8 MB
}
_absent = [name for name, owner in _WITHHELD.items() if owner not in sys.modules and name not in sys.modules]
for _name in _absent:
    sys.modules[_name] = None  # type: ignore[assignment]
try:
    import telegram  # noqa: F401 - for its effect
finally:
    for _name in _absent:
        del sys.modules[_name]
