"""What becomes of a command's error: one sentence on standard error and an exit code, never a traceback."""

import io
import os
import sys
from collections.abc import Callable

from nanobot.errors import NanobotError, UsageError
from nanobot.plain import printable

INTERRUPTED = 130


def judged(work: Callable[[], int]) -> int:
    """Do the work; returns the exit code: 0 ok, 1 failed, 2 what the person at the keyboard can mend."""
    tolerant()
    try:
        return work()
    except UsageError as error:
        return complain(str(error), 2)
    except NanobotError as error:
        return complain(str(error), 1)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return unread()
    except OSError as error:
        from nanobot import os_errors  # noqa: PLC0415 - `version` does not need it

        return complain(os_errors.sentence(error), 2 if error.errno in os_errors.MENDABLE else 1)


def complain(text: str, code: int) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"{printable(text)}\n")
    return code


def unread() -> int:
    """The reader of our output, such as `head`, has seen enough: what is left in the buffer goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return 0


def tolerant() -> None:
    """Letters that the terminal's encoding does not have are replaced; a bot's words may hold any."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
