"""The keys of sealed state: `seal.json` holds them, each wrapped with the owner's key, which never lies on the disk.

The owner's key is 32 random bytes in base64, in NANOBOT_STATE_KEY or in the keyring of the operating system. What is
sealed uses keys of its own, so that one small file, replaced at once, decides which owner's key counts.
"""

import os
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from loguru import logger

from nanobot.errors import MissingExtra, StateSealed
from nanobot.security.sealing import Sealer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NAME = "seal.json"
VARIABLE = "NANOBOT_STATE_KEY"
NEW_VARIABLE = "NANOBOT_STATE_KEY_NEW"  # what `nanobot security rekey` changes to
SERVICE = "nanobot state"  # in the operating system's keyring
SIZE = 32  # bytes
BEGUN = (
    "gateway.db",
    "sessions",
    "media",
    "children",
)  # where one of them exists, there is state that was never sealed

Source = Literal["environment", "keyring"]
Master = tuple[bytes, Source]


class Ring(msgspec.Struct, forbid_unknown_fields=True):
    """What seal.json says. `current` is the key that seals ("" = plain is written); `plain`: plain is read, too."""

    version: Literal[1]
    master: str  # which owner's key opens `keys`
    current: str
    plain: bool
    keys: dict[str, str]  # by id; base64 of nonce and wrapped key

    @property
    def settled(self) -> bool:
        """Whether everything is sealed with one key."""
        return bool(self.current) and not self.plain and len(self.keys) == 1

    @property
    def to_do(self) -> str:
        """What is unfinished, in a sentence; "" where nothing is."""
        if self.settled:
            return ""
        if not self.current:
            return "the state is half plain; finish with: nanobot security rekey --plain"
        return "what is older than its key may still be plain; encrypt it with: nanobot security rekey"


def sealer(state: Path, *, wanted: bool) -> Sealer | None:
    """How a gateway reads and writes this state; None where it is plain. Raises StateSealed and changes nothing then."""
    ring = read(state)
    if ring is None:
        return begin(state) if wanted else None
    if not wanted:
        raise StateSealed(
            f"The state in {state} is encrypted. Set encrypt_state = true under [security], "
            "or make it plain with: nanobot security rekey --plain"
        )
    sealer = opened(state, ring)
    if ring.to_do:
        logger.warning("encrypted state: {}", ring.to_do)
    return sealer


def found(state: Path) -> Sealer | None:
    """How a command reads and writes this state; None where it is plain. Raises StateSealed."""
    ring = read(state)
    return None if ring is None else opened(state, ring)


def read(state: Path) -> Ring | None:
    path = state / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Ring)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StateSealed(
            f"{path} cannot be read: {error}. Restore it from a backup of the state."
        ) from error


def begin(state: Path, owner: bytes | None = None) -> Sealer:
    """The first key of a state; what lies there already stays readable until `nanobot security rekey` sealed it.

    Raises StateSealed where there is no owner's key and no keyring to put a new one into.
    """
    if owner is None:
        given = master() or _kept_in_keyring()
        owner = given[0]
    ring = with_new_key(None, {}, owner)
    ring.plain = any((state / name).exists() for name in BEGUN)
    write(state, ring)
    if ring.plain:
        logger.warning("encrypted state: {}", ring.to_do)
    return opened(state, ring)


def opened(state: Path, ring: Ring) -> Sealer:
    """The sealer of a ring. Raises StateSealed where the owner's key is absent or another one."""
    keys = unwrapped(state, ring)
    aesgcm, broken = _library()
    return Sealer(ring.current, {name: aesgcm(key) for name, key in keys.items()}, broken, plain=ring.plain)


def unwrapped(state: Path, ring: Ring) -> dict[str, bytes]:
    given = master(ring.master)
    if given is None:
        raise StateSealed(
            f"The state in {state} is encrypted and its key is not here: set {VARIABLE}, or unlock the keyring that has it."
        )
    if identity(given[0]) != ring.master:
        raise StateSealed(
            f"The key in {VARIABLE} is not the one that the state in {state} is encrypted with. Nothing was changed."
        )
    aesgcm, broken = _library()
    wrap = aesgcm(given[0])
    try:
        return {
            name: wrap.decrypt(data[:12], data[12:], b"nanobot state key\0" + name.encode())
            for name, data in ((name, b64decode(text)) for name, text in ring.keys.items())
        }
    except (broken, ValueError) as error:
        raise StateSealed(f"{state / NAME} was changed. Restore it from a backup of the state.") from error


def with_new_key(ring: Ring | None, keys: Mapping[str, bytes], owner: bytes) -> Ring:
    """A ring whose current key is new, with the old ones beside it, all wrapped with this owner's key."""
    fresh = os.urandom(8).hex()
    every = {**keys, fresh: os.urandom(SIZE)}
    return wrapped(owner, fresh, every, plain=ring is None or ring.plain)


def wrapped(owner: bytes, current: str, keys: Mapping[str, bytes], *, plain: bool) -> Ring:
    aesgcm, _ = _library()
    wrap = aesgcm(owner)

    def one(name: str, key: bytes) -> str:
        nonce = os.urandom(12)
        return b64encode(nonce + wrap.encrypt(nonce, key, b"nanobot state key\0" + name.encode())).decode()

    return Ring(1, identity(owner), current, plain, {name: one(name, key) for name, key in keys.items()})


def write(state: Path, ring: Ring) -> None:
    """Put the ring in place whole and durably."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = state / f".{NAME}.{os.urandom(6).hex()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(ring)) + b"\n")
        file.flush()
        os.fsync(fd)
    temporary.replace(state / NAME)
    directory = os.open(state, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


# The owner's key


def master(wanted: str = "") -> Master | None:
    """The owner's key: of the variables the one with this id, else the first; without any, the keyring's.

    Raises StateSealed where a variable holds something else than a key.
    """
    texts = ((name, os.environ.get(name, "").strip()) for name in (VARIABLE, NEW_VARIABLE))
    given = [parse(text, name) for name, text in texts if text]
    for key in given:
        if identity(key) == wanted:
            return key, "environment"
    if wanted and (kept := _keyring_get(wanted)):
        return parse(kept, "the keyring"), "keyring"
    return (given[0], "environment") if given else None


def parse(text: str, where: str) -> bytes:
    try:
        key = b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != SIZE:
        raise StateSealed(f"{where} must hold 32 bytes in base64. Make such a key with: nanobot security key")
    return key


def identity(owner: bytes) -> str:
    """By what a ring knows the owner's key; it tells nothing about the key."""
    return sha256(b"nanobot owner's key\0" + owner).hexdigest()[:16]


def new_master() -> str:
    return b64encode(os.urandom(SIZE)).decode()


def keep(text: str) -> bool:
    """Put an owner's key into the keyring; False where there is none that can be used."""
    try:
        import keyring  # noqa: PLC0415 - optional, and only where it is asked for
        from keyring.errors import KeyringError  # noqa: PLC0415 - as above
    except ImportError:
        return False
    try:
        keyring.set_password(SERVICE, identity(parse(text, "the key")), text)
    except KeyringError:
        return False
    return True


def renewed_in_keyring(ring: Ring) -> bytes | None:
    """A new owner's key in the keyring, where the present one is kept there; None where it comes from a variable."""
    given = master(ring.master)
    if given is None or given[1] != "keyring":
        return None
    return _kept_in_keyring()[0]


def forget(wanted: str) -> None:
    """Remove an owner's key from the keyring, where it is there."""
    try:
        import keyring  # noqa: PLC0415 - optional, and only where it is asked for
        from keyring.errors import KeyringError  # noqa: PLC0415 - as above
    except ImportError:
        return
    try:
        keyring.delete_password(SERVICE, wanted)
    except KeyringError:
        return


def _keyring_get(wanted: str) -> str | None:
    if "keyring" not in sys.modules:
        from importlib.util import find_spec  # noqa: PLC0415 - as keyring itself

        if find_spec("keyring") is None:
            return None
    import keyring  # noqa: PLC0415 - optional, and only where state is sealed
    from keyring.errors import KeyringError  # noqa: PLC0415 - as above

    try:
        return keyring.get_password(SERVICE, wanted)
    except KeyringError:
        return None


def _kept_in_keyring() -> Master:
    text = new_master()
    _library()  # first of all: a key that nothing can use is not to be kept
    if not keep(text):
        raise StateSealed(
            f"encrypt_state needs a key: set {VARIABLE} (make one with: nanobot security key), "
            "or install the library keyring where the operating system has a keyring."
        )
    return parse(text, "the keyring"), "keyring"


def _library() -> "tuple[type[AESGCM], type[Exception]]":
    try:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - optional, and only where state is sealed
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as above
    except ImportError as error:
        raise MissingExtra("Encrypted state", "encryption") from error
    return AESGCM, InvalidTag
