#!/usr/bin/env python3
"""Stands in for codex and claude: replays a captured stream, or misbehaves as the prompt on standard input says.

Directives, one a line: REPLAY file, EXIT n, GARBAGE, FLOOD megabytes, STUBBORN, DAEMON file, SLEEP seconds, ECHO,
ONCE signal file, DIE signal, SIGNALS file, LISTEN, USE tokens.
Without any it answers like codex or claude would, by its own name.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from functools import partial
from pathlib import Path

name = Path(sys.argv[0]).name
arguments = sys.argv[1:]
speaks = "--input-format" in arguments  # messages, one a line, until the end of the input


def heard() -> str:
    """The next message; nothing at the end."""
    line = sys.stdin.readline()
    if not line:
        return ""
    message = json.loads(line)
    sys.stdout.write(json.dumps({**message, "isReplay": True}) + "\n")
    sys.stdout.flush()
    return str(message["message"]["content"])


prompt = heard() if speaks else sys.stdin.read()


def say(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def answer(text: str) -> None:
    thread = os.environ.get("FAKE_THREAD") or str(uuid.UUID(int=7))
    if name == "codex":
        resumed = arguments[arguments.index("resume") + 1] if "resume" in arguments else ""
        say(type="thread.started", thread_id=resumed or thread)
        say(type="turn.started")
        say(type="item.completed", item={"id": "item_0", "type": "agent_message", "text": text})
        tokens = 1000 if not resumed else 2500
        say(
            type="turn.completed",
            usage={"input_tokens": tokens, "cached_input_tokens": 200, "output_tokens": tokens // 10},
        )
        return
    flag = "--resume" if "--resume" in arguments else "--session-id"
    session = arguments[arguments.index(flag) + 1]
    say(type="system", subtype="init", session_id=session)
    block = {"type": "text", "text": text}
    say(type="assistant", message={"id": "m1", "model": "fake", "content": [block]}, session_id=session)
    model = {
        "inputTokens": 120,
        "outputTokens": 42,
        "cacheReadInputTokens": 30,
        "cacheCreationInputTokens": 50,
        "costUSD": 0.001,
    }
    say(
        type="result", subtype="success", is_error=False, result=text, session_id=session, total_cost_usd=0.001,
        model_usage_since_last_result={"fake": model},
    )  # fmt: skip


def noted(place: Path, number: int, _: object) -> None:
    place.write_text(f"{place.read_text()}{signal.Signals(number).name} ")


code: int | None = None
answered = False
for line in prompt.splitlines():
    word, _, rest = line.strip().partition(" ")
    match word:
        case "REPLAY":
            sys.stdout.write(Path(rest).read_text())
            answered = True
        case "EXIT":
            code, answered = int(rest), True
        case "GARBAGE":
            sys.stdout.buffer.write(random.Random(1).randbytes(200_000) + b'\n[1,2]\nnull\n"x"\n{"type":5}\n')
            sys.stdout.flush()
        case "FLOOD":
            chunk = b'{"type":"item.completed","item":{"type":"reasoning","text":"' + b"x" * 1000 + b'"}}\n'
            for _ in range(int(rest) * 1024 * 1024 // (len(chunk) * 512)):
                sys.stdout.buffer.write(chunk * 512)
        case "STUBBORN":
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
        case "SIGNALS":  # notes each one, and goes on but for SIGKILL
            Path(rest).write_text("")
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, partial(noted, Path(rest)))
            say(type="ready")
        case "DAEMON":
            started = subprocess.Popen(["sleep", "300"], start_new_session=True, stdin=subprocess.DEVNULL)
            Path(rest).write_text(str(started.pid))
        case "ONCE":  # a number of signal to die by, 0 to hang; only if the file is not there yet
            deadly, _, place = rest.partition(" ")
            if not Path(place).exists():
                Path(place).write_text(str(os.getpid()))
                if name == "codex":
                    say(type="thread.started", thread_id=str(uuid.UUID(int=7)))
                if int(deadly):
                    os.kill(os.getpid(), int(deadly))
                time.sleep(600)
        case "DIE":
            os.kill(os.getpid(), int(rest))
        case "LISTEN":  # as a tool runs: what is said meanwhile is heard after it
            answered = True
            answer(f"{name} heard: {heard()}")
        case "USE":  # tokens, told while the turn goes on
            if name == "claude":
                used = {"input_tokens": int(rest), "output_tokens": 1}
                block = {"type": "text", "text": "working"}
                message = {"id": f"m-{rest}", "model": "fake", "content": [block], "usage": used}
                say(type="assistant", message=message)
            else:
                thread = str(uuid.UUID(int=7))
                say(type="thread.started", thread_id=thread)
                place = Path(os.environ["CODEX_HOME"], "sessions/2026/11/21")
                place.mkdir(parents=True, exist_ok=True)
                used = {"input_tokens": int(rest), "output_tokens": 1}
                event = {"type": "token_count", "info": {"total_token_usage": used}}
                with (place / f"rollout-2026-11-21T10-00-00-{thread}.jsonl").open("a") as file:
                    file.write(json.dumps({"type": "event_msg", "payload": event}) + "\n")
        case "SLEEP":
            if name == "codex":
                say(type="thread.started", thread_id=str(uuid.UUID(int=7)))
            time.sleep(float(rest))
if not answered:
    answer(
        f"{len(prompt)} characters from {os.getcwd()}" if "ECHO" in prompt else f"{name}: {prompt.strip()}"
    )
sys.stdout.flush()
while speaks and code is None and heard():
    pass  # it exits at the end of its input
os._exit(code or 0)
