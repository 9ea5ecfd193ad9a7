"""What `claude -p --output-format stream-json` prints, as steps and a verdict. Seen with 2.1.328 and 2.1.329."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from nanobot.events import Usage
from nanobot.executor import Spent, Step, Verdict
from nanobot.executors.codex_events import mapping, maps, money, number, shown, text

CHARACTERS = 4  # of a token, about
SYNTHETIC = "<synthetic>"  # the model's name on a message that claude itself wrote, for example an API error


class ClaudeEvents:
    """One turn. `total` is what the session had cost before it: claude sums costs over resumes and forks."""

    def __init__(self, total: Spent | None = None, turn: int = 0) -> None:
        self._before = total or Spent()
        self._turn = turn
        self._result: Mapping[str, Any] | None = None
        self._message = (
            ""  # id of the message whose text is the last; one message is split over several lines
        )
        self._answer = ""
        self._retry = ""
        self._thread = ""
        self._tools: dict[str, str] = {}  # a call's id → its tool's name
        self._replayed = False  # the prompt came back
        self._spent = Spent()  # as results told it: what is said in between may make one turn end twice
        self._total = self._before
        self._calls: dict[str, Usage] = {}  # a message's id → its usage, until a result tells it exactly

    def feed(self, event: Mapping[str, Any]) -> Sequence[Step]:
        at = text(event.get("timestamp"))
        self._thread = text(event.get("session_id")) or self._thread
        match event.get("type"):
            case "system":
                return self._system(event)
            case "assistant":
                return self._assistant(
                    mapping(event.get("message")), at, text(event.get("parent_tool_use_id"))
                )
            case "user" if event.get("isReplay"):
                return self._replay(mapping(event.get("message")), at)
            case "user":
                return self._user(mapping(event.get("message")), at)
            case "result":
                self._result = event
                self._settle(event)
                if event.get("is_error"):
                    return [Step("error", text=self._failure(event), state="failed", turn=self._turn)]
        return ()

    def verdict(self) -> Verdict:
        result = self._result
        spent = self._spent + Spent(sum(self._calls.values(), Usage()))
        if result is None:
            total = self._before + spent
            return Verdict(
                answer=self._answer, error=self._retry, thread=self._thread, spent=spent, total=total
            )
        failed = bool(result.get("is_error")) or not text(result.get("subtype")).startswith("success")
        return Verdict(
            said="failed" if failed else "completed",
            answer=self._answer if failed else text(result.get("result")) or self._answer,
            error=self._failure(result) if failed else "",
            thread=self._thread,
            spent=spent,
            total=self._total,
            denied=[text(one.get("tool_name")) for one in maps(result.get("permission_denials"))],
        )

    def _system(self, event: Mapping[str, Any]) -> Sequence[Step]:
        match event.get("subtype"):
            case "api_retry":
                self._retry = (
                    f"{text(event.get('error')) or 'API error'} (status {event.get('error_status')}), "
                    f"attempt {event.get('attempt')} of {event.get('max_retries')}"
                )
                return [Step("notice", text=f"retrying: {self._retry}", turn=self._turn)]
            case "permission_denied":
                return [
                    Step(
                        "warning",
                        text(event.get("tool_use_id")),
                        text(event.get("message")),
                        state="declined",
                        name=text(event.get("tool_name")),
                        turn=self._turn,
                    )
                ]
        return ()

    def _assistant(self, message: Mapping[str, Any], at: str, parent: str) -> Sequence[Step]:
        steps: list[Step] = []
        synthetic = message.get("model") == SYNTHETIC
        tokens = 0 if synthetic else self._count(message)
        for block in maps(message.get("content")):
            match block.get("type"):
                case "text" if synthetic:
                    steps.append(Step("notice", text=text(block.get("text")), at=at, turn=self._turn))
                case "text":
                    said = text(block.get("text"))
                    if not parent:  # a helper's words are not the answer
                        message_id = text(message.get("id"))
                        same = bool(message_id) and message_id == self._message
                        self._answer = f"{self._answer}\n{said}" if same else said
                        self._message = message_id
                    steps.append(Step("message", text(message.get("id")), said, at=at, turn=self._turn))
                case "thinking":
                    steps.append(Step("thinking", text=text(block.get("thinking")), at=at, turn=self._turn))
                case "tool_use":
                    self._tools[text(block.get("id"))] = text(block.get("name"))
                    steps.append(self._call(block, at))
        if steps:
            steps[0] = msgspec.structs.replace(steps[0], tokens=tokens)
        return steps

    def _call(self, block: Mapping[str, Any], at: str) -> Step:
        call_id, name, arguments = text(block.get("id")), text(block.get("name")), mapping(block.get("input"))
        if name == "Bash":
            return Step(
                "command", call_id, text(arguments.get("command")), state="started", at=at, turn=self._turn
            )
        if name in {"Write", "Edit", "NotebookEdit"}:
            path = text(arguments.get("file_path")) or text(arguments.get("notebook_path"))
            changes = [{"path": path, "kind": "add" if name == "Write" else "update"}]
            return Step("files", call_id, state="started", name=name, changes=changes, at=at, turn=self._turn)
        return Step("tool", call_id, state="started", name=name, arguments=arguments, at=at, turn=self._turn)

    def _user(self, message: Mapping[str, Any], at: str) -> Sequence[Step]:
        steps = []
        for block in maps(message.get("content")):
            if block.get("type") != "tool_result":
                continue
            call_id = text(block.get("tool_use_id"))
            failed = bool(block.get("is_error"))
            output = shown(block.get("content"))
            steps.append(
                Step(
                    "result",
                    call_id,
                    output=output,
                    state="failed" if failed else "completed",
                    exit_code=_exit_code(output) if failed else None,
                    name=self._tools.get(call_id, ""),
                    at=at,
                    turn=self._turn,
                )
            )
        return steps

    def _replay(self, message: Mapping[str, Any], at: str) -> Sequence[Step]:
        """What was said to it, as it took it in. The first is the prompt."""
        if not self._replayed:
            self._replayed = True
            return ()
        return [Step("said", text=shown(message.get("content")), at=at, turn=self._turn)]

    def _count(self, message: Mapping[str, Any]) -> int:
        """What a line adds to what was used.

        A message comes in several lines, each with the usage at its start: its output is estimated by its length.
        """
        written = sum(
            len(text(block.get("text")) or text(block.get("thinking")) or str(block.get("input") or ""))
            for block in maps(message.get("content"))
        )
        message_id = text(message.get("id"))
        before = self._calls.get(message_id, Usage())
        usage = _run_usage(mapping(message.get("usage")))
        output = max(usage.output, before.output + written // CHARACTERS)
        after = self._calls[message_id] = Usage(max(usage.input, before.input), output, usage.cached)
        return after.input + after.output - before.input - before.output

    def _settle(self, result: Mapping[str, Any]) -> None:
        """A result tells exactly what was estimated before it."""
        self._calls.clear()
        spent, self._total = self._spending(result)
        self._spent += spent

    def _failure(self, result: Mapping[str, Any]) -> str:
        errors = result.get("errors")
        errors = errors if isinstance(errors, list) else ()
        said = [text(one) for one in errors] or [text(result.get("result"))]
        why = text(result.get("terminal_reason"))
        found = "; ".join(one for one in said if one and not one.startswith("[ede_diagnostic]"))
        return found or why or text(result.get("subtype")) or "it failed without a reason"

    def _spending(self, result: Mapping[str, Any]) -> tuple[Spent, Spent]:
        """This run's and the session's. The per-run figure of `usage` is 0 when a budget stopped it."""
        cost = money(result.get("total_cost_usd"))
        since = mapping(result.get("model_usage_since_last_result")).values()
        runs = [mapping(one) for one in since]
        usage = Usage()
        for one in runs:
            usage += _model_usage(one)
        if runs:
            spent = Spent(usage, sum(money(one.get("costUSD")) or 0.0 for one in runs))
        else:
            usage = _run_usage(mapping(result.get("usage")))
            spent = Spent(usage, None if cost is None else max(0.0, cost - (self._total.cost_usd or 0.0)))
        total = self._total + spent
        return spent, total if cost is None else Spent(total.usage, cost)


def _model_usage(one: Mapping[str, Any]) -> Usage:
    """Claude's input excludes what was cached; ours includes it."""
    read = number(one.get("cacheReadInputTokens"))
    written = number(one.get("cacheCreationInputTokens"))
    return Usage(
        number(one.get("inputTokens")) + read + written,
        number(one.get("outputTokens")),
        read,
        number(one.get("thinkingTokens")),
    )


def _run_usage(one: Mapping[str, Any]) -> Usage:
    read = number(one.get("cache_read_input_tokens"))
    written = number(one.get("cache_creation_input_tokens"))
    return Usage(number(one.get("input_tokens")) + read + written, number(one.get("output_tokens")), read)


def _exit_code(output: str) -> int | None:
    """Claude tells a failed command's status in words: "Exit code 3"."""
    first = output.partition("\n")[0].removeprefix("Exit code ").strip()
    return int(first) if first.isdecimal() and output.startswith("Exit code ") else None
