"""The calls that are not there in the sandbox: those to the kernel's keyrings, which no name space divides.

A command would else read the keys of whoever started the gateway: Kerberos tickets, a file system's passwords.
The filter is what seccomp(2) takes: it looks at the processor's kind and the call's number, and nothing else.
"""

import fcntl
import os
import struct
from functools import cache

# Audit's name of a kind of processor → add_key, request_key, keyctl.
CALLS = {
    0xC000_003E: (
        248,
        249,
        250,
    ),  # x86_64, and its 32-bit pointers' variant, whose numbers have bit 30 besides
    0x4000_0003: (286, 287, 288),  # i386, which x86_64 runs too
    0xC000_00B7: (217, 218, 219),  # aarch64
    0x4000_0028: (309, 310, 311),  # arm, which aarch64 runs too
    0xC000_00F3: (217, 218, 219),  # riscv64
    0xC000_0015: (269, 270, 271),  # ppc64le
    0x8000_0016: (278, 279, 280),  # s390x
}
_LOAD, _EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06
_NUMBER, _KIND = 0, 4  # where struct seccomp_data has them
_ALLOW, _ABSENT = 0x7FFF_0000, 0x0005_0026  # ENOSYS, as on a kernel without keyrings


def program() -> bytes:
    """The filter, as an array of struct sock_filter."""
    lines = [_line(_LOAD, _KIND)]
    for kind, calls in CALLS.items():
        # Jumps count the lines they leave out: all of this kind's, or up to its refusal.
        lines.append(_line(_EQUAL, kind, no=len(calls) + 4))
        lines += [_line(_LOAD, _NUMBER), _line(_AND, 0xBFFF_FFFF)]
        lines += [_line(_EQUAL, call, yes=len(calls) - at) for at, call in enumerate(calls)]
        lines += [_line(_RETURN, _ALLOW), _line(_RETURN, _ABSENT)]
    return b"".join([*lines, _line(_RETURN, _ALLOW)])


@cache
def place() -> str:
    """A file that holds the filter as long as this process lives, and that nobody can change."""
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, program())
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _line(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
