"""The wheel, built for real and run from outside the checkout. CI installs it whole and has it answer a message."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (built,) = out.glob("nanobot-*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


def python(unpacked: Path, *arguments: str, cwd: Path) -> str:
    """Run the wheel's code: the environment's libraries, but not the checkout's sources."""
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    done = subprocess.run(
        [sys.executable, *arguments],
        check=True,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=60,
    )
    return done.stdout


def test_site_packages_gains_nothing_but_nanobot(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"nanobot"}


@pytest.mark.parametrize(
    "path",
    [
        "channels/websocket/channel.toml",
        "channels/websocket/adapter.py",
        "channels/websocket/web/index.html",
        "channels/websocket/web/vendor/VENDOR.json",
        "skills/memory/SKILL.md",
        "templates/system.md.j2",
        "workspace.example/config.toml",
        "workspace.example/channels/echo/channel.toml",
    ],
)
def test_the_content_is_bundled(wheel: Path, path: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert f"nanobot/_bundled/{path}" in archive.namelist()


def test_no_tests_benchmarks_or_caches_are_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        unwanted = [
            name
            for name in archive.namelist()
            if "__pycache__" in name or name.startswith(("tests", "bench"))
        ]
    assert unwanted == []


def test_the_wheels_code_finds_its_content_and_makes_a_workspace(unpacked: Path, tmp_path: Path) -> None:
    found = python(
        unpacked, "-c", "from nanobot import content; print(content.bundled('channels'))", cwd=tmp_path
    )
    assert Path(found.strip()) == unpacked / "nanobot" / "_bundled" / "channels"
    python(unpacked, "-m", "nanobot", "init", str(tmp_path / "workspace"), cwd=tmp_path)
    assert (tmp_path / "workspace" / "config.toml").is_file()


def test_a_gateway_out_of_the_wheel_answers(unpacked: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[agent]\nmodel = "scripted/test"\n[models.scripted]\n')
    said = python(unpacked, "-m", "nanobot", "chat", "-w", str(tmp_path), "-m", "hello", cwd=tmp_path)
    assert "echo: hello" in said


def test_the_page_out_of_the_wheel_is_joined_to_one_script(unpacked: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from nanobot import content; channels = content.bundled('channels');"
        "sys.path.insert(0, str(channels.parent)); from channels.websocket.assets import Maker;"
        "print(len(Maker(channels / 'websocket' / 'web').make('app.js').sources))"
    )

    assert int(python(unpacked, "-c", script, cwd=tmp_path)) > 30
