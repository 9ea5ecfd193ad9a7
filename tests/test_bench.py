"""What the bench makes of its figures: tables, curves, pictures and the page; and that its soak can tell a leak."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import report, soak
from bench.curves import CURVES, draw, points, table
from bench.plot import HEIGHT, WIDTH, Axis, chart
from bench.report import Part
from bench.table import APART, PARTS, ROWS

ABOUT = {
    "at": "2026-11-21T10:00:00+00:00",
    "commit": "abc1234",
    "python": "3.11",
    "system": "Linux 6",
    "cpu": "a CPU",
    "cpus": 2,
    "load": 0.5,
    "memory_gb": 16,
    "quick": False,
}
LINES = {"floor": [(1.0, 10.0), (1000.0, 20.0)], "ours": [(1.0, 3.0), (10.0, 400.0), (1000.0, 0.0)]}


def part(figures: dict[str, dict[str, float | str]], **about: object) -> Part:
    return Part({**ABOUT, **about}, figures)


def test_every_part_is_explained_and_has_rows_or_curves() -> None:
    assert set(PARTS) == set(ROWS)
    assert set(ROWS) >= APART
    curved = {curve.part for curve in CURVES}
    assert all(ROWS[name] or name in curved for name in ROWS)
    assert len({row.key for rows in ROWS.values() for row in rows}) == sum(map(len, ROWS.values()))


def test_a_chart_is_sound_xml_within_its_frame_and_names_axes_and_lines() -> None:
    text = chart("A < B & C", Axis("messages", log=True), Axis("ms", log=True), LINES)
    root = ET.fromstring(text)
    shown = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"A < B & C", "messages, log scale", "ms, log scale", "floor", "ours", "1,000"} <= set(shown)
    for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
        assert 0 < float(circle.attrib["cx"]) < WIDTH
        assert 0 < float(circle.attrib["cy"]) < HEIGHT
    assert "prefers-color-scheme: dark" in text


def test_a_log_scale_leaves_zeros_out_and_a_linear_one_begins_at_zero() -> None:
    logged = chart("t", Axis("x", log=True), Axis("y", log=True), LINES)
    assert logged.count("<circle") == 4
    linear = chart("t", Axis("x"), Axis("y"), LINES)
    assert linear.count("<circle") == 5
    assert ">0<" in linear


def test_larger_values_stand_higher_and_further_right() -> None:
    text = chart("t", Axis("x"), Axis("y"), {"ours": [(0, 1), (5, 9)]})
    [(x1, y1), (x2, y2)] = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', text)
    assert float(x1) < float(x2)
    assert float(y1) > float(y2)


def test_nothing_measured_is_no_picture() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        chart("t", Axis("x"), Axis("y"), {"ours": []})
    assert draw({"ours": {}}, CURVES[0]) is None


def test_the_points_of_a_curve_are_figures_by_name() -> None:
    figures: dict[str, float | str] = {
        "growth.chats.rate@200": 9,
        "growth.chats.rate@5": 3.5,
        "growth.chats.cpu_ms@5": 1,
    }
    assert points(figures, "growth.chats.rate") == [(5, 3.5), (200, 9)]
    rows = table({"ours": figures, "floor": {"growth.chats.rate@5": 100}}, CURVES[0])
    assert rows == [["Turns a second, /s", "5", "200"], ["floor", "100", "–"], ["ours", "3.5", "9"]]


def test_the_page_names_what_was_missed_and_what_went_wrong() -> None:
    parts = {
        "turns": part({"floor": {"one.cpu_ms": 1.0}, "ours": {"one.cpu_ms": 5.0, "one.faults": "2 lost"}}),
        "memory": part({"ours": {"rss.sessions": 70.0}, "peer": {"rss.sessions": 189.0}}),
    }
    page = report.page(parts, "\n")
    assert "**missed: 1 chat: gateway CPU per turn, ms" not in page
    assert "missed: 1 chat: gateway CPU per turn." in page
    assert "| 1 chat: gateway CPU per turn, ms | 1 | - | **5** | 5x | - | **≤ 4, missed** |" in page
    assert "| RSS with 200 sessions of 20 turns, MB | - | 189 | **70** | - | 2.7x | ≤ 75 |" in page
    assert "**fault**, ours: one: 2 lost" in page


def test_measuring_one_part_again_keeps_the_others_and_what_was_written_by_hand(tmp_path: Path) -> None:
    first = {
        "turns": {"ours": {"one.cpu_ms": 3.0}, "peer": {"one.cpu_ms": 170.0}},
        "growth": {"ours": {"growth.chats.rate@1": 5.0, "growth.chats.rate@10": 50.0}},
    }
    report.write(report.keep(first, ABOUT, tmp_path), tmp_path)
    page = tmp_path / "performance.md"
    old = page.read_text()
    assert "img/growth-chats-rate.svg" in old
    assert (tmp_path / "img" / "growth-chats-rate.svg").exists()
    assert report.EMPTY in old
    page.write_text(report.replaced(old, report.BY_HAND, "\nThe loop was slow.\n"))

    later = {**ABOUT, "at": "2026-11-22T10:00:00+00:00"}
    report.write(report.keep({"turns": {"ours": {"one.cpu_ms": 2.0}}}, later, tmp_path), tmp_path)
    new = page.read_text()
    assert "The loop was slow." in new
    assert "| 1 chat: gateway CPU per turn, ms | - | 170 | **2** | - | 85x | ≤ 4 |" in new
    assert "the peer's are of 2026-11-21 10:00" in new
    assert "growth-chats-rate.svg" in new


def test_the_proofs_table_of_restarts_is_put_between_its_marks(tmp_path: Path) -> None:
    proof = tmp_path / "proof.md"
    proof.write_text(f"before {report.KILLS[0]}old{report.KILLS[1]} after")
    kills: dict[str, dict[str, float | str]] = {
        "ours": {"kill.times": 5, "kill.unanswered": 0.0},
        "peer": {"kill.times": 5, "kill.unanswered": 100.0},
    }
    report.write(report.keep({"kill": kills}, ABOUT, tmp_path), tmp_path)
    text = proof.read_text()
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert "old" not in text
    assert "kill -9: unanswered 30 s after the restart | - | 100 | **0**" in text


@pytest.mark.parametrize(("an_hour", "leaks"), [(0.0, False), (40.0, True)])
def test_a_soak_tells_a_leak_from_a_rest(an_hour: float, leaks: bool) -> None:
    samples = [(10.0 * n, 70 + an_hour * n / 360 + n % 3 / 10, 40, 6) for n in range(180)]
    found = soak.flat(samples)
    [limit] = [row.limit for row in ROWS["soak"] if row.key == "soak.grown"]
    assert limit is not None
    assert (float(found["soak.grown"]) > limit) == leaks
    assert float(found["soak.slope"]) == pytest.approx(an_hour, abs=1.0)
    assert found["soak.fds"] == found["soak.threads"] == 0
