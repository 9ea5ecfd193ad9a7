"""The model's contract over every driver, against servers that speak the protocols."""

from collections.abc import AsyncIterator

import pytest

from nanobot.clock import SystemClock
from nanobot.contracts.model import ANSWER, Behaviour, ModelContract, Staged
from nanobot.model import Failed, Model, Text, ToolCall
from nanobot.models.anthropic import AnthropicModel
from nanobot.models.fallback import FallbackModel
from nanobot.models.http import HttpClient
from nanobot.models.openai import OpenAIModel
from nanobot.models.scripted import Pause, Reply, ScriptedModel
from tests.emulators import model_server
from tests.emulators.anthropic import AnthropicServer
from tests.emulators.model_server import ModelServer
from tests.emulators.openai import OpenAIServer
from tests.emulators.settings import Settings

REPLIES: dict[Behaviour, model_server.Reply] = {
    "answers": model_server.Reply(ANSWER, delay=0.01),
    "calls": model_server.Reply(calls=(model_server.Call("c1", "look", '{"at": "the sky"}'),)),
    "refuses": model_server.Reply(status=400, error="no"),
    "cuts": model_server.Reply(ANSWER, cut=True),
    "hangs": model_server.Reply(hang=True),
    "talks": model_server.Reply("word " * 1000, delay=0.01),
}


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    pool = HttpClient()
    yield pool
    await pool.close()


def stage(server: ModelServer, make: type[OpenAIModel | AnthropicModel], client: HttpClient) -> Staged:
    def staged(behaviour: Behaviour) -> Model:
        server.script(*[REPLIES[behaviour]] * 5)
        settings = Settings(base_url=server.url, timeout=0.2 if behaviour == "hangs" else 10)
        return make("provider/model", settings, client, context_window=1000)

    return staged


class TestOpenAI(ModelContract):
    @pytest.fixture
    async def staged(self, client: HttpClient) -> AsyncIterator[Staged]:
        async with OpenAIServer() as server:
            yield stage(server, OpenAIModel, client)


class TestAnthropic(ModelContract):
    @pytest.fixture
    async def staged(self, client: HttpClient) -> AsyncIterator[Staged]:
        async with AnthropicServer() as server:
            yield stage(server, AnthropicModel, client)


class TestFallback(ModelContract):
    """A chain's last model is the one that is heard; what can be tried again is, so "cuts" shows a restart first."""

    @pytest.fixture
    async def staged(self, client: HttpClient) -> AsyncIterator[Staged]:
        async with OpenAIServer() as server:
            single = stage(server, OpenAIModel, client)

            def staged(behaviour: Behaviour) -> Model:
                if behaviour in ("cuts", "hangs"):
                    pytest.skip("is tried again: tests/test_models_fallback.py")
                return FallbackModel([single(behaviour)], SystemClock())

            yield staged


SCRIPTS: dict[Behaviour, Reply] = {
    "answers": [Text("The sky "), Text("is blue today.")],
    "calls": [ToolCall("c1", "look", '{"at": "the sky"}')],
    "refuses": [Failed("invalid", "No.")],
    "cuts": [Text("The sky"), Failed("cut", "The stream ended.")],
    "talks": [step for _ in range(1000) for step in (Text("word "), Pause(0.01))],
}


class TestScripted(ModelContract):
    @pytest.fixture
    def staged(self) -> Staged:
        def staged(behaviour: Behaviour) -> Model:
            if behaviour not in SCRIPTS:
                pytest.skip("a script that hangs is meant to: its user's deadlines are under test")
            return ScriptedModel([SCRIPTS[behaviour]] * 5)

        return staged
