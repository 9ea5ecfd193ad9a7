"""Loading channel folders: one identity, replaceable, and errors that say what to do."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanobot import plugins
from nanobot.errors import ChannelDown, ConfigError, MissingExtra
from nanobot.manifest import read
from nanobot.plugins import load_channel

ADAPTER = "class Parrot:\n    name = {word!r}\n"
INIT = "from .adapter import Parrot\n\ndef create(port):\n    return Parrot()\n"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for name in ("parrot", "slack"):
        plugins.forget(name)


def drop(workspace: Path, name: str, files: dict[str, str], manifest: str = "") -> Path:
    folder = workspace / "channels" / name
    folder.mkdir(parents=True)
    (folder / "channel.toml").write_text(f'name = "{name}"\ntitle = "{name.title()}"\n{manifest}')
    for file, text in files.items():
        (folder / file).write_text(text)
    return folder


def test_a_workspace_channel_is_loaded_under_its_public_name(tmp_path: Path) -> None:
    drop(tmp_path, "parrot", {"__init__.py": INIT, "adapter.py": ADAPTER.format(word="polly")})
    module = load_channel("parrot", tmp_path)
    assert module.__name__ == "channels.parrot"
    assert module.create(None).name == "polly"
    assert load_channel("parrot", tmp_path) is module


def test_an_import_by_name_and_the_loader_mean_the_same_class(tmp_path: Path) -> None:
    drop(tmp_path, "parrot", {"__init__.py": INIT, "adapter.py": ADAPTER.format(word="polly")})
    module = load_channel("parrot", tmp_path)
    from channels.parrot.adapter import Parrot  # type: ignore[import-not-found]

    assert Parrot is module.Parrot


def test_another_folder_of_the_same_name_brings_its_own_submodules(tmp_path: Path) -> None:
    for word in ("first", "second"):
        drop(tmp_path / word, "parrot", {"__init__.py": INIT, "adapter.py": ADAPTER.format(word=word)})
    assert load_channel("parrot", tmp_path / "first").create(None).name == "first"
    assert load_channel("parrot", tmp_path / "second").create(None).name == "second"


def test_a_shipped_channel_is_replaced_only_when_the_configuration_names_it(tmp_path: Path) -> None:
    mine = drop(tmp_path, "slack", {"__init__.py": "def create(port):\n    return 'mine'\n"})
    assert load_channel("slack", tmp_path, replace=True).create(None) == "mine"
    assert plugins.folder_of("slack", tmp_path) != mine


def test_missing_libraries_name_the_extra(tmp_path: Path) -> None:
    drop(tmp_path, "parrot", {"__init__.py": "import no_such_library_here\n"}, 'extra = "slack"\n')
    with pytest.raises(MissingExtra, match=r"pip install 'nanobot\[slack\]'"):
        load_channel("parrot", tmp_path)
    assert "channels.parrot" not in sys.modules


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "This build has no adapter for Parrot"),
        ({"__init__.py": "x = 1\n"}, r"has no create\(port\)"),
        ({"__init__.py": "def create(\n"}, "cannot be imported: SyntaxError"),
        ({"__init__.py": "import no_such_library_here\n"}, "No module named 'no_such_library_here'"),
        ({"__init__.py": "from .adapter import create\n"}, "No module named 'channels.parrot.adapter'"),
        ({"__init__.py": "1 / 0\n"}, "ZeroDivisionError"),
    ],
)
def test_a_channel_that_cannot_be_loaded_says_why(files: dict[str, str], said: str, tmp_path: Path) -> None:
    drop(tmp_path, "parrot", files)
    with pytest.raises(ChannelDown, match=said):
        load_channel("parrot", tmp_path)


def test_an_unknown_channel_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no channel 'parrot'"):
        load_channel("parrot", tmp_path)


def test_without_a_checkout_a_parent_module_is_made(tmp_path: Path) -> None:
    drop(tmp_path, "parrot", {"__init__.py": INIT, "adapter.py": ADAPTER.format(word="polly")})
    root = Path(plugins.__file__).parent.parent
    library = tmp_path / "library"
    library.mkdir()
    # As installed: the package, and no `channels` beside it.
    (library / "nanobot").symlink_to(root / "nanobot")
    code = (
        "import sys, pickle; from pathlib import Path;"
        f"sys.path[:] = [p for p in sys.path if Path(p).resolve() != Path({str(root)!r})] + [{str(library)!r}];"
        "import importlib.util; assert importlib.util.find_spec('channels') is None;"
        "from nanobot.plugins import load_channel;"
        f"parrot = load_channel('parrot', Path({str(tmp_path)!r}));"
        "import channels.parrot.adapter as again; assert again.Parrot is parrot.Parrot;"
        "assert type(pickle.loads(pickle.dumps(parrot.create(None)))) is parrot.Parrot"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_foreign_library_named_channels_is_left_alone(tmp_path: Path) -> None:
    drop(tmp_path, "parrot", {"__init__.py": INIT, "adapter.py": ADAPTER.format(word="polly")})
    foreign = tmp_path / "library" / "channels"
    foreign.mkdir(parents=True)
    (foreign / "__init__.py").write_text("raise SystemExit('imported')\n")
    code = (
        f"import sys; from pathlib import Path; sys.path.insert(0, {str(foreign.parent)!r});"
        "from nanobot.plugins import load_channel;"
        f"assert load_channel('parrot', Path({str(tmp_path)!r})).create(None).name == 'polly'"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "other"\ntitle = "x"\n', "name is 'other' but the folder is 'parrot'"),
        ('name = "parrot"\n', "title"),
        ('name = "parrot"\ntitle = "x"\ncolour = "red"\n', "colour"),
        ("name = \n", "line 1"),
        ('name = "parrot"\ntitle = "x"\n[settings.a]\ntype = "word"\n', "word"),
        (
            'name = "parrot"\ntitle = "x"\n[settings.a]\ntype = "bool"\nwhen = "b"\n',
            "settings.a refers to 'b'",
        ),
    ],
)
def test_a_bad_manifest_names_file_and_fault(text: str, said: str, tmp_path: Path) -> None:
    folder = drop(tmp_path, "parrot", {})
    (folder / "channel.toml").write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        read(folder)
    assert str(folder / "channel.toml") in str(caught.value)
