"""A keyring that is a file, in the place of the operating system's: PYTHON_KEYRING_BACKEND names it."""

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError


class FileKeyring(KeyringBackend):
    priority = 1.0

    def get_password(self, service: str, username: str) -> str | None:
        found: str | None = self._all().get(f"{service}/{username}")
        return found

    def set_password(self, service: str, username: str, password: str) -> None:
        self._write({**self._all(), f"{service}/{username}": password})

    def delete_password(self, service: str, username: str) -> None:
        known = self._all()
        if known.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError("it is not there")
        self._write(known)

    def _all(self) -> dict[str, str]:
        path = Path(os.environ["TEST_KEYRING"])
        found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def _write(self, known: dict[str, str]) -> None:
        Path(os.environ["TEST_KEYRING"]).write_text(json.dumps(known))
