"""What every Transcripts keeps, as tests. An implementation's own test module runs them:

pytest.register_assert_rewrite("nanobot.contracts")

class TestMyTranscripts(TranscriptsContract):
    @pytest.fixture
    async def transcripts(self): ...      # empty
    @pytest.fixture
    def reopen(self): ...                 # callable: those transcripts as the next life finds them
"""

import asyncio
from collections.abc import Callable

from nanobot.messages import Line
from nanobot.store import Transcripts

Reopen = Callable[[Transcripts], Transcripts]


def said(text: str, turn: str = "t1") -> Line:
    return Line(role="user", content=text, timestamp="2026-01-01T00:00:00.000+00:00", turn=turn)


class TranscriptsContract:
    async def test_an_unknown_session_is_empty(self, transcripts: Transcripts) -> None:
        session = await transcripts.open("telegram:1")
        assert (session.key, session.messages, session.metadata) == ("telegram:1", [], {})
        assert session.last_consolidated == 0

    async def test_lines_are_there_in_order_in_the_next_life(
        self, transcripts: Transcripts, reopen: Reopen
    ) -> None:
        await transcripts.append("telegram:1", [said("one"), said("two")])
        await transcripts.append("telegram:1", [said("three")])
        session = await reopen(transcripts).open("telegram:1")
        assert session.messages == [said("one"), said("two"), said("three")]

    async def test_whoever_holds_a_session_sees_what_is_added(self, transcripts: Transcripts) -> None:
        session = await transcripts.open("telegram:1")
        line = said("one")
        await transcripts.append("telegram:1", [line])
        assert session.messages[0] is line
        assert await transcripts.open("telegram:1") is session

    async def test_opening_twice_at_once_gives_one_session(
        self, transcripts: Transcripts, reopen: Reopen
    ) -> None:
        await transcripts.append("telegram:1", [said("one")])
        again = reopen(transcripts)
        first, second = await asyncio.gather(again.open("telegram:1"), again.open("telegram:1"))
        assert first is second

    async def test_appends_at_once_keep_the_order_in_which_they_were_asked(
        self, transcripts: Transcripts, reopen: Reopen
    ) -> None:
        await transcripts.open("telegram:1")
        await asyncio.gather(*[transcripts.append("telegram:1", [said(str(n))]) for n in range(50)])
        session = await reopen(transcripts).open("telegram:1")
        assert [line["content"] for line in session.messages] == [str(n) for n in range(50)]

    async def test_sessions_are_apart(self, transcripts: Transcripts, reopen: Reopen) -> None:
        keys = [
            "telegram:a_b",
            "telegram:a:b",
            "telegram:A_B",
            "telegram:ä",
            "x" * 300,
            "x" * 301,
            "a/../b",
            "",
        ]
        for key in keys:
            await transcripts.append(key, [said(key)])
        again = reopen(transcripts)
        for key in keys:
            session = await again.open(key)
            assert (session.key, session.messages) == (key, [said(key)])

    async def test_metadata_is_merged_and_none_removes(
        self, transcripts: Transcripts, reopen: Reopen
    ) -> None:
        await transcripts.append("telegram:1", [said("one")])
        await transcripts.update("telegram:1", {"title": "A", "model": "m"})
        await transcripts.update("telegram:1", {"title": "B", "model": None, "never": None})
        session = await reopen(transcripts).open("telegram:1")
        assert session.metadata == {"title": "B"}
        assert session.messages == [said("one")]

    async def test_a_session_may_have_metadata_alone(self, transcripts: Transcripts, reopen: Reopen) -> None:
        await transcripts.update("telegram:1", {"model": "m"})
        session = await reopen(transcripts).open("telegram:1")
        assert (session.messages, session.metadata) == ([], {"model": "m"})

    async def test_what_is_consolidated_is_kept_with_the_metadata(
        self, transcripts: Transcripts, reopen: Reopen
    ) -> None:
        await transcripts.append("telegram:1", [said("one"), said("two")])
        session = await transcripts.open("telegram:1")
        session.last_consolidated = 1
        await transcripts.update("telegram:1", {"summary": {"text": "one"}})
        assert (await reopen(transcripts).open("telegram:1")).last_consolidated == 1

    async def test_lines_come_back_as_they_were_said(self, transcripts: Transcripts, reopen: Reopen) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"q":"ü"}'}}
        lines = [
            said("line one\nline two\u2028three \x00 \U0001f600"),
            Line(role="assistant", content="", tool_calls=[call], turn="t1", extra={"signature": "x"}),
            Line(role="tool", content="", tool_call_id="c1", name="f", turn="t1"),
            Line(role="assistant", content="done", turn="t1", latency_ms=12, usage={"input": 3}),
        ]
        await transcripts.append("telegram:1", lines)
        assert (await reopen(transcripts).open("telegram:1")).messages == lines
