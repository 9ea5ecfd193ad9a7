"""A gateway as a process of its own, to be killed."""

import asyncio
import os
import signal
import sys
from pathlib import Path

LAUNCH = Path(__file__).with_name("launch.py")
ROOT = Path(__file__).parents[2]
START_SECONDS = 30.0


class GatewayProcess:
    """One workspace, and one process after another on it."""

    def __init__(self, workspace: Path, model_url: str, *, port: int = 0, extra: str = "") -> None:
        self.workspace = workspace
        self.port = port  # after the first start the real one, which later starts use again
        self.url = ""
        self._process: asyncio.subprocess.Process | None = None
        self._log = workspace.parent / f"{workspace.name}.log"
        workspace.mkdir(parents=True, exist_ok=True)
        self._model_url = model_url
        self._extra = extra

    async def start(self, moment: str = "-") -> None:
        """Start it and wait for its ready line; with a moment it may be dead before that."""
        (self.workspace / "config.toml").write_text(
            f'[agent]\nmodel = "test/echo"\nattempts = 10\n{self._extra}\n'
            f'[models.test]\nkind = "openai"\napi_key = "none"\nbase_url = "{self._model_url}"\n'
            f"[http]\nport = {self.port}\n[security]\nallow_unsandboxed = true\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(LAUNCH),
                str(self.workspace),
                moment,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        assert self._process.stdout
        async with asyncio.timeout(START_SECONDS):
            line = (await self._process.stdout.readline()).decode()
        if not line.startswith("ready "):
            await self.dead()
            if moment == "-":
                raise AssertionError(f"the gateway did not start:\n{self.log()[-4000:]}")
            return
        self.url = line.split()[1]
        self.port = int(self.url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    async def kill(self) -> None:
        """SIGKILL, as a power cut to the process."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        await self.dead()

    async def terminate(self) -> int:
        """SIGTERM; returns the exit status."""
        assert self._process
        self._process.send_signal(signal.SIGTERM)
        return await self.dead()

    async def dead(self) -> int:
        """Wait until it is gone."""
        assert self._process
        async with asyncio.timeout(START_SECONDS):
            return await self._process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")
