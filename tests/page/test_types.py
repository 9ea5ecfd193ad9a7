"""The page's scripts under a type checker, where there is one: `make types-web`."""

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.mark.skipif(shutil.which("tsc") is None, reason="the TypeScript compiler is not here")
def test_the_scripts_keep_the_types_they_state() -> None:
    command = ["tsc", "-p", str(Path(__file__).parent)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert result.returncode == 0, result.stdout
