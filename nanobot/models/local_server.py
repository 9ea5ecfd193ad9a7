"""The process that runs llama.cpp: `python -P -m nanobot.models.local_server --model FILE`.

It serves chat completions on a loopback port, prints `{"ready": "<base URL>", "key": "…"}` once, and ends with its parent: at the
end of its standard input, and by the kernel's signal where that is available.
"""

import argparse
import ctypes
import json
import os
import secrets
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xllamacpp

PR_SET_PDEATHSIG = 1
QUIET = 2  # llama.cpp's verbosity: errors and warnings


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--context", type=int, default=4096, help="tokens")
    parser.add_argument("--threads", type=int, default=0, help="0 = one for each core")
    parser.add_argument("--parent", type=int, default=0, help="the process to end with")
    options = parser.parse_args()
    _end_with(options.parent)
    key = secrets.token_urlsafe(32)  # other users and web pages can reach a loopback port
    server = _serve(options, key)
    ready = {"ready": f"{server.listening_address}/v1", "key": key}
    print(json.dumps(ready), flush=True)  # noqa: T201 - the parent reads it
    threading.Event().wait()


def _serve(options: argparse.Namespace, key: str) -> "xllamacpp.Server":
    import xllamacpp  # noqa: PLC0415 - after the parent is watched

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.api_keys = [key]
    params.n_ctx = options.context
    params.n_parallel = 1  # slots would share the context; further requests wait their turn
    params.cpuparams.n_threads = options.threads or os.cpu_count() or 1
    params.use_jinja = True
    params.ui = False
    params.endpoint_slots = False
    params.cache_ram_mib = 0  # its default may take 8 GB
    params.verbosity = QUIET
    return xllamacpp.Server(params)


def _end_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:  # it was gone before the kernel could be asked
        os._exit(0)
    threading.Thread(target=_watch_input, daemon=True).start()


def _watch_input() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
