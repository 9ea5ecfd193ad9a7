"""What becomes of accepted messages when the gateway dies: 25 accepted, kill, restart, count.

20 chats get one message each and one chat gets five. Each message holds a word of its own, and the model answers
with the words it has not answered yet, so every answer says whom it is for, whoever looks: the clients that attached
again, or the files on the disk.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import aiohttp

from bench import load
from bench.gateway import Target, fresh
from bench.processes import Server, running

Figures = dict[str, float | str]

SINGLES = 20
FIVE = 5
MODEL_SECONDS = 2.0
ACCEPT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
MORE_SECONDS = 3.0  # after the last answer, for those that should not come


class Crowd:
    """The clients of 21 chats, and what they saw."""

    def __init__(self) -> None:
        self.chats = [f"kill-{number}" for number in range(SINGLES)] + ["kill-five"]
        self.words = {chat: [f"tok-{chat}-0"] for chat in self.chats[:-1]}
        self.words["kill-five"] = [f"tok-kill-five-{number}" for number in range(FIVE)]
        self.accepted: set[str] = set()
        # Message id → the text of a final; a repeat of an id is no second answer.
        self.finals: dict[str, str] = {}
        self._texts: dict[str, list[str]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.result = load.Result(first=[], end=[], accepted=[], errors=[])

    @property
    def all(self) -> set[str]:
        return {word for words in self.words.values() for word in words}

    async def join(self, session: aiohttp.ClientSession, server: Server) -> list[load.Chat]:
        chats = [await load.connect(session, server.socket, chat, self.result) for chat in self.chats]
        self._tasks = [asyncio.create_task(self._listen(chat)) for chat in chats]
        return chats

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(self, chats: list[load.Chat], *, acknowledged: bool) -> None:
        """Send all; where the protocol acknowledges, wait until every message is accepted."""
        for number in range(FIVE):
            for chat in chats:
                if number < len(self.words[chat.chat_id]):
                    await chat.say(self.words[chat.chat_id][number])
        async with asyncio.timeout(ACCEPT_SECONDS):
            while acknowledged and len(self.accepted) < len(self.all):
                await asyncio.sleep(0.001)

    async def _listen(self, chat: load.Chat) -> None:
        words = self.words[chat.chat_id]
        try:
            while True:
                frame = await chat.frame()
                match frame.event:
                    case "accepted":
                        self.accepted.add(words[int(str(frame.id).rpartition("-")[2]) - 1])
                    case "delta":
                        self._texts.setdefault(f"{chat.chat_id}/{frame.stream_id}", []).append(
                            str(frame.text)
                        )
                    case "stream_end" | "message" if frame.kind in (None, "reply"):
                        self._final(chat.chat_id, frame)
        except ConnectionError:
            return

    def _final(self, chat_id: str, frame: load.Frame) -> None:
        streamed = "".join(self._texts.pop(f"{chat_id}/{frame.stream_id}", []))
        text = str(frame.text or streamed)
        if text:
            self.finals[str(frame.message_id or f"{chat_id}#{len(self.finals)}")] = text

    def answered(self) -> Counter[str]:
        return count(self.finals.values(), self.all)


def count(texts: Iterable[str], words: set[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for text in texts:
        found.update(word for word in set(text.split()) if word in words)
    return found


async def once(target: Target, folder: Path, llm: str, after: float, *, politely: bool) -> Figures:
    """One death, `after` seconds past the last acceptance; what 25 messages came to."""
    crowd = Crowd()
    server = await target.start(fresh(folder), llm, f"echo-{MODEL_SECONDS:g}")
    async with load.client() as session:
        try:
            chats = await crowd.join(session, server)
            await crowd.send(chats, acknowledged=target.name == "ours")
            await asyncio.sleep(after)
        finally:
            await (server.terminate() if politely else server.kill())
        await crowd.leave()
    begun = time.perf_counter()
    seconds = 0.0
    async with (
        running(await target.start(folder, llm, f"echo-{MODEL_SECONDS:g}")) as server,
        load.client() as session,
    ):
        await crowd.join(session, server)
        while time.perf_counter() - begun < ANSWER_SECONDS:
            if len(crowd.answered()) == len(crowd.all):
                seconds = time.perf_counter() - begun
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(MORE_SECONDS)
        await crowd.leave()
    seen, kept = crowd.answered(), count(target.answers(folder), crowd.all)
    return {
        "accepted": len(crowd.accepted) or len(crowd.all),
        "unanswered": len(crowd.all - set(seen)),
        "unanswered_on_disk": len(crowd.all - set(kept)),
        "twice": sum(1 for times in (seen | kept).values() if times > 1),
        "seconds": seconds,
    }


async def kill(target: Target, folder: Path, llm: str, *, quick: bool) -> Figures:
    """Deaths at different moments, summed up: while accepting, inside the model call, as the answers are written."""
    moments = (
        [(1.0, False)] if quick else [(0.0, False), (1.0, False), (2.0, False), (2.2, False), (1.0, True)]
    )
    figures: Figures = {"kill.times": len(moments)}
    for after, politely in moments:
        found = await once(target, folder, llm, after, politely=politely)
        kind = "term" if politely else "kill"
        for name in ("accepted", "unanswered", "unanswered_on_disk", "twice"):
            key = f"{kind}.{name}"
            figures[key] = float(figures.get(key, 0.0)) + float(found[name])
        figures[f"{kind}.{after:g}s"] = ", ".join(f"{name} {value:g}" for name, value in found.items())
    return figures
