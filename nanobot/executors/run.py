"""One turn of an outside agent: started or taken over, read while it works, ended with all it started.

Its output goes to files, not to pipes, so that it outlives this process: a gateway that is killed finds it again by
process id, start time and boot id, and reads on. A small shell around it keeps its exit status for whoever comes.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from nanobot.clock import to_its_end
from nanobot.executor import (
    Executor,
    ExecutorProblem,
    Job,
    Parser,
    ProcessRecord,
    Reason,
    Result,
    Spent,
    Step,
    Verdict,
    conclude,
)
from nanobot.executors.reader import LineReader
from nanobot.executors.times import TimeLog
from nanobot.executors.voice import Voice
from nanobot.security import tree
from nanobot.stores.turn_files import TurnFiles

OUTPUT_LIMIT = 256 << 20  # bytes of one turn's output; what prints more is ended
POLL_SECONDS = 0.1
QUICK_POLL = 0.02  # while there is something to read
INTERRUPT_SECONDS = 3.0  # after SIGINT, which lets claude write its last word
TERMINATE_SECONDS = 6.0  # after SIGTERM; claude takes 1.6 s to clean up
LINGER_SECONDS = 10.0  # what a tool may take to exit after its last word
LEDGER_SECONDS = 1.0  # between looks into a tool's own record of what it uses
STDERR_KEPT = 16_384  # bytes, from its end
# The traps leave the shell alive when the tool is signalled; the tool itself starts with the default actions.
# The limit holds for each file: nothing it writes may fill the disk. In blocks of 512 bytes.
_SHELL = (
    'trap : INT TERM HUP; status="$1"; { ulimit -c 0; ulimit -f "$2"; } 2>/dev/null; shift 2; "$@"; '
    'code=$?; echo "$code" > "$status.new" && mv "$status.new" "$status"; exit "$code"'
)
# The same for a tool that is spoken to: it hears the prompt, and then what comes over our pipe (3).
_SPOKEN = (
    'trap : INT TERM HUP; status="$1"; exec 3<&0; { ulimit -c 0; ulimit -f "$2"; } 2>/dev/null; prompt="$3"; '
    'shift 3; way="$status.in"; rm -f "$way"; mkfifo -m 600 "$way" || exit 70; '
    '{ cat "$prompt"; exec cat <&3; } > "$way" & feeder=$!; "$@" < "$way" 3<&-; '
    'code=$?; kill "$feeder" 2>/dev/null; rm -f "$way"; '
    'echo "$code" > "$status.new" && mv "$status.new" "$status"; exit "$code"'
)


class ExecutorRun:
    """A turn that runs now. `process` is to be stored as soon as `start` returns."""

    def __init__(
        self,
        executor: Executor,
        job: Job,
        on_step: Callable[[Step], None],
        *,
        files: TurnFiles | None = None,
        keep: Callable[[], bool] = lambda: False,
        output_limit: int = OUTPUT_LIMIT,
        on_spent: Callable[[Verdict], None] = lambda _verdict: None,
    ) -> None:
        """`keep` says, when `wait` is cancelled, whether the process is to live on.

        `on_spent` is told whenever it is known that more was used. `files` reads what an earlier gateway sealed.
        """
        self.job = job
        self.process: ProcessRecord | None = None
        self.left = False  # to live on without us
        self._files = files or TurnFiles(job.folder)
        self._executor = executor
        self._on_step = on_step
        self._keep = keep
        self._output_limit = output_limit
        self._parser: Parser = executor.parser(job)
        self._reader = LineReader(job.file("jsonl"), opened=self._files.open)
        self._times = TimeLog(job.file("times"))
        # Not asyncio's: that one kills the process when its loop is closed, and this one may have to live on.
        self._child: subprocess.Popen[bytes] | None = None
        self._known: set[tree.Identity] = set()
        self._reason: Reason = ""
        self._why = ""
        self._voice: Voice | None = None
        self._ledger: LineReader | None = None
        self._ledger_at = 0.0
        self._on_spent = on_spent
        self._spent = Spent()
        self._stop = asyncio.Event()
        self._said_at = 0.0

    @property
    def thread(self) -> str:
        """The conversation's own name, once the tool has told it."""
        return self._parser.verdict().thread

    @property
    def said(self) -> bool:
        """Whether the tool has told how its turn ended."""
        return self._parser.verdict().said is not None

    @property
    def stopped(self) -> bool:
        """Whether we ended it, or were about to."""
        return self._stop.is_set()

    @property
    def _too_much(self) -> str:
        return f"it printed more than {self._output_limit >> 20} MB and was ended"

    async def start(self) -> None:
        """Take over what an earlier gateway started, else start afresh. Raises ExecutorProblem or Refused."""
        job = self.job
        if job.file("exit").exists() or await asyncio.to_thread(self._adopt):
            return
        if job.process is not None:
            return  # it ran and is gone, without a status: what it wrote is all there is
        command = self._executor.command(job)
        job.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        job.folder.mkdir(mode=0o700, exist_ok=True)
        blocks = max(self._output_limit // 512 * 4, 1)
        with (
            _in_memory(self._executor.said(job.prompt)) as stdin,
            _open_private(job.file("jsonl")) as stdout,
            _open_private(job.file("stderr")) as stderr,
        ):
            given = [str(job.file("exit")), str(blocks)]
            if self._executor.speaks:
                self._voice = Voice()
                given.append(f"/proc/self/fd/{stdin.fileno()}")
            shell = _SPOKEN if self._voice else _SHELL
            line = ["/bin/sh", "-c", shell, self._executor.name, *given, *command]
            environment = {**self._executor.environment(), tree.MARKER: job.marker}

            try:
                # In the loop's own thread (1 to 2 ms): a cancellation cannot come between the start and its record.
                self._child = subprocess.Popen(  # noqa: ASYNC220, S603 - a command line of ours, no shell's words in it
                    line,
                    cwd=job.working_dir,
                    env=environment,
                    stdin=self._voice.read_end if self._voice else stdin,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(stdin.fileno(),) if self._voice else (),
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                self._hush()
                raise ExecutorProblem(f"{self._executor.name} could not be started: {error}") from error
        if self._voice:
            self._voice.started()
        root = tree.identify(self._child.pid) or tree.Identity(self._child.pid, 0)
        self.process = ProcessRecord(root.pid, root.started, tree.boot_id(), job.marker)

    async def say(self, text: str) -> bool:
        """Say something to the tool while it works; False where it cannot hear it any more, or never could."""
        if self._voice is None or self._parser.verdict().said is not None:
            return False
        return await self._voice.say(self._executor.said(text))

    def stop(self, reason: Reason = "killed", why: str = "") -> None:
        """End it; `wait` returns soon after. The first reason stands."""
        if not self._stop.is_set():
            self._reason, self._why = reason, why
            self._stop.set()

    async def wait(self) -> Result:
        """Read on until it has ended. When this returns or is cancelled, nothing that it started is left."""
        began = time.monotonic()
        try:
            while self._running():
                read = await self._read()
                self._judge(time.monotonic() - began)
                if self._stop.is_set():
                    break
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), QUICK_POLL if read else POLL_SECONDS)
        except asyncio.CancelledError:
            if self._keep():
                self.let_go()
            raise
        finally:
            self._hush()
            await to_its_end(self.end())
            self.job.file("exit.in").unlink(missing_ok=True)
        await self._read(final=True)
        return self._result()

    async def end(self) -> None:
        """SIGINT, SIGTERM, SIGKILL, each with time to react, and no process of its tree is left. Harmless twice."""
        root = self._root()
        if root is None:
            return
        await self._look(root)
        if self._running():
            for number, seconds in ((signal.SIGINT, INTERRUPT_SECONDS), (signal.SIGTERM, TERMINATE_SECONDS)):
                for identity in self._targets(root, number):
                    tree.send(identity, number)
                if await self._gone(seconds):
                    break
                await self._look(root)
        await tree.kill_tree(root, self.job.marker, self._known)
        await self._gone(TERMINATE_SECONDS)  # reaps it

    def let_go(self) -> None:
        """Stop reading and leave it running: a gateway that stops finds it again after its start."""
        if self._child is not None:
            self._child.returncode = 0  # else its destructor warns that nobody waited
        self._child = self.process = None
        self.left = True

    def _hush(self) -> None:
        if self._voice is not None:
            self._voice.close()

    # --- the process -----------------------------------------------------------------------------------------

    def _adopt(self) -> bool:
        """Find what an earlier gateway started for this very turn."""
        record = self.job.process
        if record is not None and record.boot != tree.boot_id():
            return False
        if record is not None and tree.alive(tree.Identity(record.pid, record.started)):
            self.process = record
            return True
        # It may have been killed between the start and the record of it.
        found = tree.marked(self.job.marker)
        if found:
            root = found[0].identity
            self.process = ProcessRecord(root.pid, root.started, tree.boot_id(), self.job.marker)
        return bool(found)

    def _root(self) -> tree.Identity | None:
        return tree.Identity(self.process.pid, self.process.started) if self.process else None

    def _running(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        root = self._root()
        return root is not None and tree.alive(root)

    async def _look(self, root: tree.Identity) -> None:
        """Remember the tree before it is signalled: codex's commands are sessions of their own and lose their parent."""
        seen = await asyncio.to_thread(tree.members, root, self.job.marker)
        self._known.update(one.identity for one in seen)

    def _targets(self, root: tree.Identity, number: signal.Signals) -> Sequence[tree.Identity]:
        """SIGINT is for the tool alone, which tells its own children; SIGTERM is for all."""
        if number is signal.SIGTERM:
            return sorted(self._known - {root}, key=lambda one: (one.started, one.pid))
        return [one.identity for one in tree.members(root) if one.parent == root.pid]

    async def _gone(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self._running():
            if time.monotonic() > end:
                return False
            # A process of an earlier gateway is not our child: it can only be asked.
            await asyncio.sleep(QUICK_POLL)
        return True

    # --- its output ------------------------------------------------------------------------------------------

    async def _read(self, *, final: bool = False) -> bool:
        before = self._reader.offset
        for events in self._reader.read(final=final):
            for event in events:
                for step in self._parser.feed(event):
                    self._on_step(step)
            await asyncio.sleep(0)
            if self._reader.offset > self._output_limit:
                break
        read = self._reader.offset > before
        if read or final:
            self._times.note(self._reader.offset, last=final)
        if read:
            self._said_at = time.monotonic()
        if await self._look_into_ledger() or read:
            verdict = self._parser.verdict()
            if verdict.spent != self._spent:
                self._spent = verdict.spent
                self._on_spent(verdict)
        return read

    async def _look_into_ledger(self) -> bool:
        """Read on in the tool's own record of what it uses, where it has one; it is large, and looked into seldom."""
        now = time.monotonic()
        if not self.thread or now - self._ledger_at < LEDGER_SECONDS:
            return False
        self._ledger_at = now
        if self._ledger is None:
            path = await asyncio.to_thread(self._executor.ledger, self.thread)
            if path is None:
                return False
            self._ledger = LineReader(path)
        before = self._ledger.offset
        for events in self._ledger.read():
            for event in events:
                self._parser.feed(event)
            await asyncio.sleep(0)
        return self._ledger.offset > before

    def _judge(self, seconds: float) -> None:
        """End what takes too long, prints too much, or does not exit after its last word."""
        if seconds > self.job.timeout:
            self.stop("timed_out", f"it took longer than {self.job.timeout:g} s and was ended")
        for suffix in ("jsonl", "stderr"):
            with suppress(FileNotFoundError):
                if self.job.file(suffix).stat().st_size > self._output_limit:
                    self.stop("output_limit", self._too_much)
        if self._parser.verdict().said is not None:
            self._hush()  # so that it exits; what it was told meanwhile it answers first
            if time.monotonic() - self._said_at > LINGER_SECONDS:
                self.stop("")

    def _result(self) -> Result:
        job = self.job
        for suffix in ("jsonl", "stderr"):
            with suppress(FileNotFoundError):
                if (
                    self._files.is_plain(job.file(suffix))
                    and job.file(suffix).stat().st_size > self._output_limit
                ):
                    os.truncate(job.file(suffix), self._output_limit)
                    # It may have hit the limit of files before we looked.
                    self.stop("output_limit", self._too_much)
        code: int | None = None
        with suppress(OSError, ValueError):
            code = int(job.file("exit").read_text("ascii"))
        verdict = self._parser.verdict()
        lingered = self._stop.is_set() and not self._reason  # its last word stands, the signal was ours
        result = conclude(
            verdict,
            exit_code=None if lingered else code,
            reason=self._reason,
            stderr=self._files.tail(job.file("stderr"), STDERR_KEPT).decode("utf-8", "replace"),
            limit=self._why,
        )
        hint = self._executor.hint(result.error) if result.status == "failed" else ""
        return msgspec.structs.replace(result, garbage=self._reader.garbage, exit_code=code, hint=hint)


def _open_private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "wb")


def _in_memory(data: bytes) -> BinaryIO:
    """A file without a place on the disk, at its beginning; whoever was given it has it whole when we are gone."""
    file = os.fdopen(os.memfd_create("prompt", os.MFD_CLOEXEC), "w+b")
    file.write(data)
    file.seek(0)
    return file
