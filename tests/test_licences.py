"""Whether a licence is allowed, as the metadata of packages states it in its several ways."""

import importlib.util
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

SPEC = importlib.util.spec_from_file_location(
    "licences", Path(__file__).parent.parent / "scripts" / "licences.py"
)
assert SPEC
assert SPEC.loader
licences: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(licences)


@pytest.mark.parametrize(
    ("stated", "allowed"),
    [
        ({"License-Expression": "MIT"}, True),
        ({"License-Expression": "Apache-2.0 AND (MIT OR GPL-3.0-only)"}, True),
        ({"License-Expression": "Apache-2.0 AND GPL-3.0-only"}, False),
        ({"License-Expression": "AGPL-3.0-or-later"}, False),
        ({"Classifier": "License :: OSI Approved :: MIT License"}, True),
        ({"Classifier": "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"}, False),
        ({"License": "Apache 2.0"}, True),
        ({"License": "Proprietary"}, False),
        ({}, False),
    ],
)
def test_only_what_is_allowed_passes(stated: dict[str, str], allowed: bool) -> None:
    about = Message()
    for name, value in stated.items():
        about[name] = value
    assert (licences.verdict("it", licences.stated(about)) == "") is allowed


def test_every_locked_package_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert licences.main() == 0
    assert "all allowed" in capsys.readouterr().out
