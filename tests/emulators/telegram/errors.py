"""What the Bot API answers when it refuses."""

from typing import Any


class ApiError(Exception):
    """`{"ok": false}` with this code and description."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


def bad(text: str, **parameters: Any) -> ApiError:
    return ApiError(400, f"Bad Request: {text}", **parameters)
