"""The words of the protocol: recorded conversations, and that the protocol's document knows every word."""

import json
import re
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode

from channels.websocket.auth import host_name
from channels.websocket.connection import framed
from channels.websocket.media import clean_name, decode_data_url, sniff
from channels.websocket.replay import MAX_BYTES, Ring
from channels.websocket.wire import BadFrame, read_frame

FOLDER = Path(__file__).parents[2] / "channels" / "websocket"
DOCUMENT = (FOLDER.parents[1] / "docs" / "protocol.md").read_text()


@pytest.mark.parametrize("sample", sorted((FOLDER / "samples").glob("*.jsonl")), ids=lambda path: path.stem)
def test_recorded_conversations_are_understood_and_keep_the_rules(sample: Path) -> None:
    seen: dict[str, int] = {}
    finals: set[str] = set()
    for entry in sample.read_text().splitlines():
        mark, _, text = entry.partition(" ")
        if mark == ">":
            read_frame(text)
        elif mark == "<":
            frame = json.loads(text)
            chat = frame.get("chat_id", "")
            assert f"`{frame['event']}`" in DOCUMENT
            if frame["event"] == "ready":
                seen, finals = {}, set()
            elif frame["event"] == "attached":
                seen[chat] = frame["seq"]
            elif "seq" in frame:
                assert frame["seq"] > seen[chat]
                seen[chat] = frame["seq"]
            if frame["event"] in ("message", "stream_end") and "message_id" in frame:
                assert frame["message_id"] not in finals
                finals.add(frame["message_id"])


def test_every_event_error_and_frame_of_the_sources_is_in_the_document() -> None:
    sources = "\n".join(path.read_text() for path in FOLDER.glob("*.py"))
    words = set(re.findall(r'encode\(\s*"(\w+)"', sources))
    words |= set(re.findall(r'emit\(\s*"(\w+)"', sources))
    words |= set(re.findall(r'BadFrame\(\s*"(\w+)"', sources))
    words |= set(re.findall(r'error_frame\(\s*"(\w+)"', sources))
    words |= set(re.findall(r'tag="(\w+)"', sources))

    assert len(words) > 30
    assert {word for word in words if f"`{word}`" not in DOCUMENT and f"`{word}{{" not in DOCUMENT} == set()


def test_every_path_of_the_rest_is_in_the_document() -> None:
    sources = "\n".join(path.read_text() for path in FOLDER.glob("*.py"))
    paths = {
        f"{method} {path.replace('{key:path}', '{key}')}"
        for method, path in re.findall(r'"([A-Z]+)", "(/api/[^"]+)"', sources)
    }

    assert len(paths) > 15
    assert {one for one in paths if not re.search(re.escape(f"`{one}") + r"[`?]", DOCUMENT)} == set()


def test_a_ring_gives_what_is_newer_or_says_that_some_is_gone() -> None:
    ring = Ring(base=10)
    for seq in range(11, 21):
        ring.add(seq, "x" * (MAX_BYTES // 5))
    newer = ring.after(18)

    assert newer is not None
    assert [seq for seq, _ in newer] == [19, 20]
    assert ring.after(20) == []
    assert ring.after(10) is None
    assert ring.size <= MAX_BYTES


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("LocalHost:8765", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:8765", "::1"),
        ("example.org.", "example.org"),
        ("a@b", ""),
        ("a/b", ""),
        ("a:x", ""),
        ("a b", ""),
        ("a;script-src *", ""),
        ("[::1", ""),
        ("", ""),
    ],
)
def test_a_host_header_is_read_strictly(host: str, name: str) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.txt", "a.txt"),
        ("a\u202egnp.exe", "agnp.exe"),
        ("..", "file"),
        ("a\nb\0.txt", "ab.txt"),
        ("x" * 300, "x" * 120),
    ],
)
def test_file_names_lose_what_could_fool_anybody(name: str, clean: str) -> None:
    assert clean_name(name) == clean


@pytest.mark.parametrize(
    "url",
    [
        "",
        "data:,x",
        "data:image/png;base64,",
        "data:image/png;base64,!!",
        "http://x/a.png",
        "data:text/plain,hi",
    ],
)
def test_only_base64_data_urls_hold_files(url: str) -> None:
    with pytest.raises(BadFrame):
        decode_data_url(url)


def test_types_come_from_bytes_and_not_from_claims() -> None:
    assert sniff(b"<script>", "image/png") == "text/plain"
    assert sniff(b"RIFF\0\0\0\0WEBPVP8 ", "text/html") == "image/webp"
    assert sniff(b"\0\1", "audio/amr") == "audio/amr"
    assert sniff("grüße".encode(), "text/html; x") == "text/plain"
    assert sniff(b"\xff\xfe\xfd" * 9, "") == "application/octet-stream"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 200_000])
@pytest.mark.parametrize("letter", ["a", "ü"])
def test_a_ready_frame_is_what_the_library_would_have_written(size: int, letter: str) -> None:
    text = letter * (size // len(letter.encode()))
    assert framed(text) == Frame(Opcode.TEXT, text.encode()).serialize(mask=False)
