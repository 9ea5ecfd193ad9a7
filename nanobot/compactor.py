"""Folding old turns into a summary when a history outgrows the model's window. The originals stay in the file."""

from loguru import logger

from nanobot import history
from nanobot.agent import compaction, context
from nanobot.clock import Clock, stamp
from nanobot.errors import StoreError
from nanobot.model import Model, ModelEvent
from nanobot.store import Transcript, Transcripts
from nanobot.workbench import Workbench

INSTRUCTION = "compact.md.j2"


class SummaryCompactor:
    """Asks the model for a summary; where it cannot give one, a mechanical digest stands in."""

    def __init__(self, bench: Workbench, transcripts: Transcripts, clock: Clock) -> None:
        self._bench = bench
        self._transcripts = transcripts
        self._clock = clock

    async def tidy(self, transcript: Transcript, model: Model, *, force: bool = False) -> None:
        """Fold what is due; `force` folds all but the last turn. Never called while the session's turn runs."""
        budget = context.room(
            system_tokens=history.text_tokens(self._bench.prompts.last(small=model.small)),
            tool_tokens=0 if model.small else self._bench.tool_tokens,
            context_window=model.context_window,
            max_output=self._bench.max_output(model),
        )
        previous = compaction.stored(transcript.metadata)
        start = transcript.last_consolidated if previous else 0
        folded = compaction.due(transcript.messages, start, budget, force=force)
        if folded is None:
            return
        lines = history.for_models(transcript.messages[folded.start : folded.stop])
        request = compaction.request(
            lines,
            previous,
            instruction=self._bench.prompts.text(INSTRUCTION),
            limit=budget * 2,
            max_output=self._bench.max_output(model),
        )
        # The model bounds its own waits, and whoever calls this bounds the whole.
        events: list[ModelEvent] = [event async for event in model.stream(request)]
        text = compaction.digest(events) or compaction.fallback_digest(lines, previous)
        summary = {"text": text, "upto": folded.stop, "at": stamp(self._clock.now())}
        before, transcript.last_consolidated = transcript.last_consolidated, folded.stop
        try:
            await self._transcripts.update(transcript.key, {"summary": summary})
        except StoreError:
            transcript.last_consolidated = before
            raise
        logger.bind(session=transcript.key).info("folded {} lines into a summary", len(lines))
