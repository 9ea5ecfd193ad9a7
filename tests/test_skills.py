"""Skills: how a SKILL.md is read, found, replaced, invoked and kept cheap."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loguru import logger

from nanobot.errors import ToolError
from nanobot.frontmatter import BadFrontmatter, parse
from nanobot.messages import Address
from nanobot.skills import FILE, Skills, read, reader
from nanobot.tool import ToolContext

REPOSITORY = Path(__file__).parents[1]
SHIPPED = ["github", "memory", "skill-creator", "summarize", "tmux"]


class Ticks:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def put(root: Path, name: str, head: str = "description: Does things.", body: str = "Do them.") -> Path:
    path = root / name / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\n{head}\n---\n{body}\n")
    return path


def make(tmp_path: Path) -> tuple[Skills, Path, Path, Ticks]:
    own, shipped, ticks = tmp_path / "ws" / "skills", tmp_path / "shipped", Ticks()
    own.mkdir(parents=True)
    shipped.mkdir()
    return Skills(tmp_path / "ws", [own, shipped], monotonic=ticks), own, shipped, ticks


@pytest.fixture
def logged() -> Any:
    lines: list[str] = []
    handler = logger.add(lambda message: lines.append(str(message)), format="{message}")
    yield lines
    logger.remove(handler)


def test_examples_come_from_skills_that_can_be_used_the_workspaces_own_first(tmp_path: Path) -> None:
    skills, own, shipped, _ = make(tmp_path)
    put(shipped, "a", head="description: x\nexample: Summarise   this page")
    put(shipped, "b", head="description: x\nexample: Deploy it\nrequires: {bins: [no-such-program]}")
    put(shipped, "c")
    put(own, "z", head="description: x\nexample: Plan my week")

    assert skills.examples(3) == ("Plan my week", "Summarise this page")
    assert skills.examples(1) == ("Plan my week",)


# The head of a SKILL.md.


@pytest.mark.parametrize(
    ("head", "value"),
    [
        ("key: plain words # a remark", "plain words"),
        ("key: a url http://x.y/#z: fine", "a url http://x.y/#z: fine"),
        ('key: "quoted: \\"yes\\"" # remark', 'quoted: "yes"'),
        ("key: 'it''s'", "it's"),
        ("key: true", True),
        ("key:", ""),
        ("key: [a, 'b, c', d]", ["a", "b, c", "d"]),
        ("key: []", []),
        ("key: {bins: [gh, git], env: []}", {"bins": ["gh", "git"], "env": []}),
        ('key: {"nanobot": {"always": true}}', {"nanobot": {"always": True}}),
        ("key: {\n  bins: [gh]\n  }", {"bins": ["gh"]}),
        ("key:\n  bins: [gh]\n  env:\n    - A\n    - B", {"bins": ["gh"], "env": ["A", "B"]}),
        ("key:\n- a\n- b", ["a", "b"]),
        ("key: >\n  one\n  two\n\n  three", "one two\nthree"),
        ("key: |-\n  one\n  two", "one\ntwo"),
    ],
)
def test_a_head_is_read_as_yaml_would(head: str, value: Any) -> None:
    assert parse(f"---\n{head}\nlast: 1\n---\nBody\n---\nmore") == (
        {"key": value, "last": "1"},
        "Body\n---\nmore",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no head",
        "---\nname: a",
        "---\njust words\n---\n",
        "---\na: 1\na: 2\n---\n",
        "---\na: [b\n---\n",
        "---\na: {b}\n---\n",
        '---\na: "b\n---\n',
        "---\na: [b] c\n---\n",
        "---\na: b\n  c: d\n---\n",
        "---\na:\n\tb: c\n---\n",
        "---\na: " + "[" * 50 + "]" * 50 + "\n---\n",
        "---\na: " + "x" * 20_000 + "\n---\n",
    ],
)
def test_a_broken_head_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadFrontmatter, match=r"line \d+|closing|longer"):
        parse(text)


@given(st.text(alphabet="ab:-[]{}\"'#|> \n\t,\\é0", max_size=200))
def test_no_head_whatever_raises_anything_else(text: str) -> None:
    try:
        head, body = parse(f"---\n{text}\n---\nBody")
    except BadFrontmatter:
        return
    assert all(isinstance(key, str) for key in head)
    assert body.endswith("Body")


words = st.text(alphabet="abcXYZ019 ,:'\"[]{}#\\-", min_size=1, max_size=30)


@given(st.lists(words), words)
def test_quoted_words_come_back_as_they_were(values: list[str], single: str) -> None:
    quoted = ", ".join('"{}"'.format(value.replace("\\", "\\\\").replace('"', '\\"')) for value in values)
    text = f"---\nlist: [{quoted}]\none: '{single.replace(chr(39), chr(39) * 2)}'\n---\n"
    assert parse(text)[0] == {"list": values, "one": single}


@given(
    st.dictionaries(
        st.sampled_from(["name", "description", "always", "requires", "metadata"]),
        st.sampled_from(
            ["x", "true", "[a]", "{bins: [a, {b: c}]}", "{bins: x}", "{nanobot: [1]}", "[]", "{env: [[]]}"]
        ),
    )
)
def test_a_wrong_kind_of_value_is_refused_and_never_crashes(head: dict[str, str]) -> None:
    text = "---\n" + "".join(f"{key}: {value}\n" for key, value in head.items()) + "---\n"
    try:
        skill, _ = read(text, Path("x"))
    except BadFrontmatter:
        return
    assert skill.name == "x"
    assert all(isinstance(word, str) for word in skill.bins + skill.env)


# Which skills there are.


def test_a_workspace_skill_replaces_the_shipped_one_of_its_name(tmp_path: Path) -> None:
    skills, own, shipped, _ = make(tmp_path)
    put(own, "weather", body="Mine.")
    put(shipped, "weather", body="Shipped.")
    put(shipped, "tides")
    assert [(skill.name, skill.folder.parent) for skill in skills.list()] == [
        ("tides", shipped),
        ("weather", own),
    ]
    assert "Mine." in skills.body(skills.list()[1])


def test_a_broken_skill_is_logged_once_and_the_shipped_one_of_its_name_counts(
    tmp_path: Path, logged: list[str]
) -> None:
    skills, own, shipped, ticks = make(tmp_path)
    put(own, "weather", head="requires: {bins: gh}\ndescription: x")
    put(shipped, "weather")
    for _ in range(3):
        assert [skill.folder for skill in skills.list()] == [shipped / "weather"]
        ticks.seconds += 100
    assert len(logged) == 1
    assert "weather/SKILL.md" in logged[0]
    assert "requires.bins" in logged[0]


@pytest.mark.parametrize(
    "head", ["name: other\ndescription: x", "always: true", "description: ''", "description: [a]"]
)
def test_a_head_that_does_not_describe_its_folder_is_refused(head: str) -> None:
    with pytest.raises(BadFrontmatter):
        read(f"---\n{head}\n---\n", Path("weather"))


def test_a_skill_written_for_metadata_of_another_gateway_is_understood() -> None:
    text = '---\ndescription: x\nmetadata: {"nanobot": {"always": true, "requires": {"bins": ["gh"]}}}\n---\nBody'
    skill, body = read(text, Path("github"))
    assert (skill.always, skill.bins, body) == (True, ("gh",), "Body")


def test_a_pipe_in_place_of_a_skill_does_not_hold_the_gateway(tmp_path: Path, logged: list[str]) -> None:
    skills, own, _, _ = make(tmp_path)
    (own / "trap").mkdir()
    os.mkfifo(own / "trap" / FILE)
    assert skills.list() == ()
    assert "not a regular file" in logged[0]


def test_what_is_missing_is_named_and_noticed_when_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skills, own, _, ticks = make(tmp_path)
    put(own, "shop", head="description: x\nrequires: {bins: [sh, no-such-program], env: [SHOP_TOKEN]}")
    (skill,) = skills.list()
    assert skill.missing == ("no-such-program", "$SHOP_TOKEN")
    assert not skill.available
    assert "no-such-program, $SHOP_TOKEN missing" in skills.body(skill)

    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "no-such-program").write_text("#!/bin/sh\n")
    (tools / "no-such-program").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    monkeypatch.setenv("SHOP_TOKEN", "x")
    ticks.seconds += 31
    assert skills.list()[0].available


# What a look costs and sees.


def test_nothing_is_looked_at_twice_within_a_second(tmp_path: Path) -> None:
    skills, own, _, ticks = make(tmp_path)
    put(own, "one")
    before = skills.list()
    put(own, "two")
    assert skills.list() is before
    ticks.seconds += 1
    assert [skill.name for skill in skills.list()] == ["one", "two"]


def test_the_list_is_the_same_object_until_a_skill_changes(tmp_path: Path) -> None:
    skills, own, _, ticks = make(tmp_path)
    path = put(own, "one")
    before = skills.list()
    ticks.seconds += 100
    assert skills.list() is before
    put(own, "one", body="Another text.")
    ticks.seconds += 1
    assert skills.list() is before  # only the head is part of the list
    assert "Another text." in skills.body(before[0])
    put(own, "one", head="description: Changed.")
    ticks.seconds += 1
    assert skills.list()[0].description == "Changed."
    path.unlink()
    ticks.seconds += 1
    assert skills.list() == ()


def test_a_skills_folder_that_the_workspace_gets_later_is_seen(tmp_path: Path) -> None:
    ticks = Ticks()
    skills = Skills(tmp_path, [REPOSITORY / "skills"], monotonic=ticks)
    assert skills.get("tides") is None
    put(tmp_path / "skills", "tides")
    ticks.seconds += 1
    assert skills.get("tides") is not None


def test_a_skill_file_that_appears_in_an_old_folder_is_found(tmp_path: Path) -> None:
    skills, own, _, ticks = make(tmp_path)
    (own / "late").mkdir()
    assert skills.list() == ()
    put(own, "late")
    ticks.seconds += 1
    assert [skill.name for skill in skills.list()] == ["late"]


def test_the_text_of_an_always_skill_counts_as_a_change(tmp_path: Path) -> None:
    skills, own, _, ticks = make(tmp_path)
    put(own, "rules", head="description: x\nalways: true")
    before = skills.list()
    put(own, "rules", head="description: x\nalways: true", body="New rules.")
    ticks.seconds += 1
    assert skills.list() is not before


# $name.


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("$github what is new?", ["github"]),
        ("please use $tmux, then $github.", ["tmux", "github"]),
        ("$github and $github", ["github"]),
        ("($skill-creator)", ["skill-creator"]),
        ("it costs $100 in $PATH or US$github", []),
        ("`$github` and ```\n$tmux\n```", []),
        ("```\n$tmux without an end", []),
        ("${github} \\$github $githubs $github-actions $$github a/$github", []),
        ("$github=1 $github(x) $github_x $github/y", []),
        ("$unknown", []),
    ],
)
def test_a_message_invokes_what_it_names(tmp_path: Path, text: str, names: list[str]) -> None:
    skills = Skills(tmp_path, [REPOSITORY / "skills"])
    assert [skill.name for skill in skills.invoked(text)] == names


# The tool.


def context(tmp_path: Path) -> ToolContext:
    return ToolContext("s", "t", "c", Address("test", "1"), tmp_path, lambda _: None)


async def test_the_agent_reads_a_skill_and_its_files_and_nothing_beside(tmp_path: Path) -> None:
    skills, own, _, _ = make(tmp_path)
    put(own, "shop", body="Step one.")
    (own / "shop" / "more.md").write_text("Further.")
    (own / "shop" / "link.md").symlink_to("/etc/passwd")
    tool = reader(skills)

    text = (await tool.run({"name": "shop"}, context(tmp_path))).text
    assert "Step one." in text
    assert 'folder="skills/shop"' in text
    assert (await tool.run({"name": "shop", "file": "more.md"}, context(tmp_path))).text == "Further."
    for file in ("link.md", "../../../x", "/etc/passwd", "none.md"):
        with pytest.raises(ToolError):
            await tool.run({"name": "shop", "file": file}, context(tmp_path))
    with pytest.raises(ToolError, match="Known skills: shop"):
        await tool.run({"name": "shops"}, context(tmp_path))


@pytest.mark.parametrize("what", ["file", "folder", "state"])
async def test_a_link_in_the_skills_folder_opens_nothing_outside_the_workspace(
    tmp_path: Path, what: str
) -> None:
    workspace, outside = tmp_path / "work", tmp_path / "outside" / "shop"
    place = workspace / "skills" / "shop"
    for folder in (outside, workspace / ".nanobot" / "shop"):
        put(folder.parent, "shop", body="private words")
    place.parent.mkdir(parents=True)
    if what == "file":
        place.mkdir()
        (place / "SKILL.md").symlink_to(outside / "SKILL.md")
    else:
        place.symlink_to(outside if what == "folder" else workspace / ".nanobot" / "shop")
    assert Skills(workspace, [workspace / "skills"]).list() == ()


@pytest.mark.parametrize("target", ["outside", "work/.nanobot"])
async def test_a_skill_whose_folder_became_a_link_since_it_was_looked_at_gives_no_file_of_where_it_leads(
    tmp_path: Path, target: str
) -> None:
    workspace = tmp_path / "work"
    (tmp_path / target).mkdir(parents=True)
    (tmp_path / target / "private.txt").write_text("private words")
    put(workspace / "skills", "shop")
    skills = Skills(workspace, [workspace / "skills"], monotonic=lambda: 0.0)
    assert [one.name for one in skills.list()] == ["shop"]
    shutil.rmtree(workspace / "skills" / "shop")
    (workspace / "skills" / "shop").symlink_to(tmp_path / target)
    with pytest.raises(ToolError, match="leads out"):
        await reader(skills).run({"name": "shop", "file": "private.txt"}, context(workspace))


# What is shipped.


@pytest.mark.parametrize(
    "folder", [*(REPOSITORY / "skills").iterdir(), *(REPOSITORY / "workspace.example/skills").iterdir()]
)
def test_a_shipped_skill_is_in_order(folder: Path) -> None:
    text = (folder / FILE).read_text()
    skill, body = read(text, folder)
    assert "Use when" in skill.description
    assert len(skill.description) <= 240, "the prompt would cut it"
    assert 10 < len(body.splitlines()) < 150 or folder.name == "standup"


def test_the_promised_skills_are_shipped() -> None:
    names = [skill.name for skill in Skills(REPOSITORY, [REPOSITORY / "skills"]).list()]
    assert [name for name in names if name in SHIPPED] == SHIPPED
