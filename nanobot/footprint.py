"""Keeping the process small: what glibc and the garbage collector would else hold on to."""

import ctypes
import gc
from typing import Any

ARENA_MAX = -8  # M_ARENA_MAX of <malloc.h>


def one_arena() -> None:
    """Let all threads share one heap, before there are any: each of glibc's arenas keeps megabytes to itself.

    Our threads wait for the disk and hardly allocate, so they do not contend for it.
    """
    _libc("mallopt", ARENA_MAX, 1)


def settle() -> None:
    """After the start: give back what only importing needed, and never scan again what stays for good."""
    gc.collect()
    gc.freeze()
    _libc("malloc_trim", 0)


def _libc(name: str, *values: int) -> None:
    """Call a function that glibc has and other C libraries do not."""
    function: Any = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*values)
