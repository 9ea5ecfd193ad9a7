"""Splitting server-sent events, wherever the network cut them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.models.sse import MAX_EVENT, EventTooLong, Splitter

STREAM = (
    b': a comment\n\nevent: message\nid: 7\ndata: {"a":1}\n\ndata:{"b":2}\n\n\n\n'
    b"data: first\ndata: second\n\nretry: 10\n\ndata: [DONE]\n\n"
)
DATA = [b'{"a":1}', b'{"b":2}', b"first\nsecond", b"[DONE]"]


@given(cuts=st.lists(st.integers(0, len(STREAM) * 2), max_size=30), ending=st.sampled_from([b"\n", b"\r\n"]))
def test_events_are_the_same_however_the_bytes_are_cut(cuts: list[int], ending: bytes) -> None:
    stream = STREAM.replace(b"\n", ending)
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    splitter = Splitter()
    data = [one for start, end in pairwise(places) for one in splitter.feed(stream[start:end])]
    assert data + splitter.end() == DATA


def test_the_last_event_may_lack_its_empty_line() -> None:
    splitter = Splitter()
    assert splitter.feed(b"data: 1\n\ndata: 2") == [b"1"]
    assert splitter.end() == [b"2"]
    assert splitter.end() == []


def test_an_event_without_end_is_refused() -> None:
    splitter = Splitter()
    splitter.feed(b"data: " + b"x" * (MAX_EVENT - 10))
    with pytest.raises(EventTooLong):
        splitter.feed(b"x" * 100)
