"""docs/performance.md, its pictures, and the table of restarts in docs/proof.md: all made from the figures.

`docs/performance.json` keeps the figures the page was made from, part by part, so that one part can be measured anew.
Written by hand is only what stands between the marks of the profiles.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench import curves, machine
from bench.processes import ROOT
from bench.table import PARTS, ROWS, Figures, Row, missed, number, ratio, reached, value

DOCS = ROOT / "docs"
TARGETS = ("floor", "peer", "ours")
BY_HAND = ("<!-- by hand: profiles -->", "<!-- end -->")
KILLS = ("<!-- made by `python -m bench --only kill --write` -->", "<!-- end -->")
EMPTY = "\n(Nothing yet.)\n"


class Part(msgspec.Struct):
    """One part of the bench as it was measured last."""

    about: dict[str, Any]
    figures: dict[str, dict[str, float | str]]  # by target


Parts = dict[str, Part]


def keep(measured: Mapping[str, Mapping[str, Figures]], info: dict[str, Any], docs: Path = DOCS) -> Parts:
    """Put newly measured parts beside the older ones, and return all."""
    path = docs / "performance.json"
    parts = stored(docs)
    for name, figures in measured.items():
        new = {target: dict(found) for target, found in figures.items() if found}
        old = parts.get(name, Part({}, {}))
        kept = {target: found for target, found in old.figures.items() if found and target not in new}
        earlier = old.about.get("kept", {})
        since = {target: earlier.get(target, old.about["at"]) for target in kept}
        parts[name] = Part({**info, "kept": since} if kept else info, {**kept, **new})
    parts = {name: parts[name] for name in ROWS if name in parts}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(parts)) + b"\n")
    return parts


def stored(docs: Path = DOCS) -> Parts:
    """What was measured so far; nothing where nobody did."""
    path = docs / "performance.json"
    return msgspec.json.decode(path.read_bytes(), type=Parts) if path.exists() else {}


def write(parts: Parts, docs: Path = DOCS) -> list[Path]:
    """Write the page, its pictures and the proof's table; returns what was written."""
    results = together(parts)
    written: list[Path] = []
    pictures = docs / "img"
    pictures.mkdir(parents=True, exist_ok=True)
    for curve in curves.CURVES:
        drawn = curves.draw(results, curve)
        if drawn is not None:
            (pictures / curve.file).write_text(drawn, encoding="utf-8")
            written.append(pictures / curve.file)
    path = docs / "performance.md"
    by_hand = between(path.read_text(encoding="utf-8"), BY_HAND) if path.exists() else None
    path.write_text(page(parts, by_hand if by_hand is not None else EMPTY), encoding="utf-8")
    proof = docs / "proof.md"
    if proof.exists():
        proof.write_text(replaced(proof.read_text(encoding="utf-8"), KILLS, kills(parts)), encoding="utf-8")
        written.append(proof)
    return [*written, path]


def page(parts: Parts, by_hand: str) -> str:
    """docs/performance.md, whole. Pure."""
    results = together(parts)
    newest = max(parts.values(), key=lambda part: str(part.about["at"])).about
    late = missed(results)
    verdict = f"missed: {'; '.join(late)}" if late else "all targets are reached"
    sections = [
        HEAD.format(machine=machine.sentence(newest), day=str(newest["at"])[:10], verdict=verdict),
        "## Figures to reach\n",
        _table([row for name in parts for row in ROWS[name] if row.limit is not None], results),
        "",
        "## All figures\n",
    ]
    for name, part in parts.items():
        rows = [row for row in ROWS[name] if _cells(row, results)]
        sections += [f"### {name}\n", f"{PARTS[name]}. {_when(part.about)}\n"]
        sections += [_table(rows, results), ""] if rows else []
        sections += [f"- **fault**, {line}" for line in faults(part)]
        if faults(part):
            sections.append("")
        for curve in curves.CURVES:
            if curve.part == name and (found := curves.lines(results, curve)):
                sections += [f"![{curve.title}](img/{curve.file})\n"]
                if max(len(points) for points in found.values()) <= 12:
                    sections += [_markdown(curves.table(results, curve)), ""]
    sections += [
        "## Profiles, and what was done about them\n",
        f"{BY_HAND[0]}{by_hand}{BY_HAND[1]}\n",
        REPEAT,
    ]
    return "\n".join(sections)


def kills(parts: Parts) -> str:
    """The table of restarts, for docs/proof.md. Pure."""
    part = parts.get("kill")
    if part is None:
        return EMPTY
    times = next((figures["kill.times"] for figures in part.figures.values() if "kill.times" in figures), 0)
    said = (
        f"\n25 messages are accepted, in 20 chats one each and in one chat five; then the process dies, {times:g} times in "
        f"all, at different moments while it accepts, waits for the model and writes the answers. {_when(part.about)}\n"
    )
    return f"{said}\n{_table(ROWS['kill'], together({'kill': part}))}\n"


def together(parts: Parts) -> dict[str, dict[str, float | str]]:
    """All figures of each target, over all parts."""
    results: dict[str, dict[str, float | str]] = {}
    for name in TARGETS:
        for part in parts.values():
            if name in part.figures:
                results.setdefault(name, {}).update(part.figures[name])
    return results


def faults(part: Part) -> list[str]:
    """What went wrong while a part was measured."""
    return [
        f"{target}: {key.removesuffix('.faults')}: {found}"
        for target, figures in part.figures.items()
        for key, found in figures.items()
        if key.endswith(".faults")
    ]


def between(text: str, marks: tuple[str, str]) -> str | None:
    """What stands between two marks; None where they are not there."""
    found = re.search(re.escape(marks[0]) + "(.*?)" + re.escape(marks[1]), text, re.DOTALL)
    return found[1] if found else None


def replaced(text: str, marks: tuple[str, str], new: str) -> str:
    """The text with something else between two marks; itself where they are not there."""
    old = between(text, marks)
    return text if old is None else text.replace(f"{marks[0]}{old}{marks[1]}", f"{marks[0]}{new}{marks[1]}")


def _table(rows: Sequence[Row], results: Mapping[str, Figures]) -> str:
    peer = "peer" in results
    head = ["figure", "floor", *(["peer"] if peer else []), "ours", "ours / floor"]
    head += [*(["peer / ours"] if peer else []), "target"]
    return _markdown([head, *(cells for row in rows if (cells := _cells(row, results)))])


def _cells(row: Row, results: Mapping[str, Figures]) -> list[str]:
    floor, peer, ours = (value(results.get(name, {}), row.key) for name in TARGETS)
    if floor is None and peer is None and ours is None:
        return []
    unit = f", {row.unit}" if row.unit else ""
    target = ""
    if row.limit is not None:
        target = f"{'≥' if row.more else '≤'} {number(row.limit)}"
        if ours is not None and not reached(row, ours):
            target = f"**{target}, missed**"
    cells = [f"{row.title}{unit}", number(floor)]
    cells += [number(peer)] if "peer" in results else []
    cells += [f"**{number(ours)}**", ratio(ours, floor)]
    cells += [ratio(peer, ours)] if "peer" in results else []
    return [*cells, target]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    marks = ["---", *("--:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, marks, *body])


def _when(info: Mapping[str, Any]) -> str:
    quick = ", a quick run" if info.get("quick") else ""
    kept = "".join(
        f"; the {name}'s are of {at[:16].replace('T', ' ')}" for name, at in info.get("kept", {}).items()
    )
    return f"(Measured {str(info['at'])[:16].replace('T', ' ')} UTC at {info['commit']}, load {info['load']:g} before{quick}{kept}.)"


HEAD = """\
# Performance

<!-- Made by `make bench`; written by hand are the profiles alone. -->

A bare floor, nanobot and a peer do the same work, on the same machine, in one run. The floor is the least Python that
streams a model's answer to a WebSocket: no disk, no prompt, no tools. It is a limit, not a product. The peer is
nanobot-ai 0.3.5 with everything off that runs by itself. All share the cores with the clients and the fake model, so wall
times swing with what else the machine does; CPU per turn, of the gateway's process alone, is the sturdy figure.

**{day}: {machine}. {verdict}.**
"""

REPEAT = """\
## To repeat it

```sh
make bench                                # floor and ours
PEER_PY=/path/to/python make bench        # and the peer: a Python with nanobot-ai==0.3.5
make bench PARTS="turns long"             # some parts; the page keeps the others
make soak MINUTES=30                      # steady load; flat memory
```

On a machine that does nothing else `make bench` takes about five minutes, with the peer about twenty. A first delta is the
time from sending a message to its first word; `turn_end` to the end of its turn; p50 and p99 are percentiles. RSS is the
gateway's resident memory, in 10^6 bytes. "durable" means after fdatasync. The soak is flat when the medians of its last two
quarters are within 2 MB: in 30 minutes, 220 bytes that leak in each turn would show.
"""
