"""Lines of inbox.txt go to the bot; its answers are appended to outbox.txt, one line each."""

import asyncio
from collections.abc import Sequence
from typing import Any

from nanobot.channel import Capabilities, Event, Inbound, Outbound, Port, Receipt, StoreError

SECONDS = 0.2  # between two looks at inbox.txt


class EchoChannel:
    name = "echo"
    capabilities = Capabilities(reconcile=True)

    def __init__(self, port: Port) -> None:
        folder = port.workspace / port.settings["folder"]
        self._port = port
        self._inbox, self._outbox = folder / "inbox.txt", folder / "outbox.txt"
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._inbox.parent.mkdir(parents=True, exist_ok=True)
        self._inbox.touch()
        self._reader = asyncio.create_task(self._read())

    async def stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()

    async def deliver(self, message: Outbound) -> Receipt:
        text = " ".join(message.text.split())
        with self._outbox.open("a", encoding="utf-8") as file:
            file.write(f"{message.id} {text}\n")
        return Receipt(message.id)

    async def find(self, message: Outbound) -> Receipt | None:
        """After a crash: is the answer there already? So it is never written twice."""
        lines = self._outbox.read_text("utf-8").splitlines() if self._outbox.exists() else []
        return Receipt(message.id) if any(line.startswith(f"{message.id} ") for line in lines) else None

    def show(self, event: Event) -> None:
        """Nothing is shown live: a file cannot take a word back."""

    def routes(self) -> Sequence[Any]:
        return ()

    async def _read(self) -> None:
        position = int(await self._port.keys.get("position") or 0)
        while True:
            with self._inbox.open("rb") as file:
                file.seek(position)
                lines = file.readlines()
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # somebody is still writing it
                if not await self._accept(position, line.decode("utf-8", "replace").strip()):
                    break
                position += len(line)
                # Only now is the line done with. A crash before this hands it in again, and its id makes that harmless.
                await self._port.keys.set("position", str(position))
            await self._port.clock.sleep(SECONDS)

    async def _accept(self, position: int, text: str) -> bool:
        if not text:
            return True
        message = Inbound(
            channel=self.name, message_id=str(position), chat_id="file", text=text, sender="writer"
        )
        try:
            await self._port.accept(message)
        except StoreError as error:
            self._port.report(f"not accepted, trying again: {error}")
            return False
        self._port.report("")
        return True
