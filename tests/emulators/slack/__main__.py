"""`python -m tests.emulators.slack --port 0`"""

import argparse
import asyncio
from contextlib import suppress

from tests.emulators.slack.server import serve

parser = argparse.ArgumentParser(description="A Slack on loopback")
parser.add_argument("--port", type=int, default=0)
with suppress(KeyboardInterrupt):
    asyncio.run(serve(parser.parse_args().port))
