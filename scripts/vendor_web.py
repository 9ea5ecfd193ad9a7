"""Vendor what the web page and its tests take from npm: pinned packages, copied file by file, each with its hash.

    scripts/vendor_web.py            fetch the pinned packages with `npm pack` and write the vendor folders
    scripts/vendor_web.py --check    offline: every file is listed, has its recorded hash and imports only its neighbours

A new version: change it in PACKAGES, run the script, read the diff of VENDOR.json, run the page tests.
"""

import argparse
import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MANIFEST = "VENDOR.json"
NOTICE = "THIRD_PARTY.md"

LANGUAGES = (
    "bash c cpp csharp css diff dockerfile elixir go graphql haskell http ini java javascript json kotlin latex "
    "lua makefile markdown nginx perl php powershell protobuf python r ruby rust scala shell sql swift typescript "
    "xml yaml"
)
FONTS = (
    "AMS-Regular Caligraphic-Bold Caligraphic-Regular Fraktur-Bold Fraktur-Regular Main-Bold Main-BoldItalic "
    "Main-Italic Main-Regular Math-BoldItalic Math-Italic SansSerif-Bold SansSerif-Italic SansSerif-Regular "
    "Script-Regular Size1-Regular Size2-Regular Size3-Regular Size4-Regular Typewriter-Regular"
)

# Bare specifiers need an import map, which would have to be inline and so would break the content security policy.
NEIGHBOURS = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
BARE = re.compile(r"""(\b(?:from|import)\s*)(["'])(@?[\w-][\w/-]*)\2""")
SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=\S+\s*$")
# Of marked the page uses the lexer. What follows it in the file makes HTML strings, which the page never does.
LEXER_ONLY = re.compile(
    r'var \w+=class\{options;parser;constructor\(\w+\)\{[^}]*\}space\(\w+\)\{return""\}', re.ASCII
)
# Every browser that runs the page reads woff2; the other formats would only be dead addresses.
OLD_FONTS = re.compile(r',url\([^)]+\) format\("(?:woff|truetype)"\)')


@dataclass(frozen=True)
class Package:
    """One npm package: which of its files are taken, under which name, and where its licence text is."""

    name: str
    version: str
    licence: str
    files: dict[str, str]  # vendored path -> path in the package
    licence_file: str = "LICENSE"


PACKAGES = (
    Package(
        "preact",
        "10.29.8",
        "MIT",
        {"preact.js": "dist/preact.module.js", "hooks.js": "hooks/dist/hooks.module.js"},
    ),
    Package("@preact/signals-core", "1.14.5", "MIT", {"signals-core.js": "dist/signals-core.module.js"}),
    Package("@preact/signals", "2.11.4", "MIT", {"signals.js": "dist/signals.module.js"}),
    Package("htm", "3.1.1", "Apache-2.0", {"htm.js": "dist/htm.module.js"}),
    Package("marked", "18.2.1", "MIT", {"marked.js": "lib/marked.esm.js"}),
    Package(
        "@highlightjs/cdn-assets",
        "11.12.0",
        "BSD-3-Clause",
        {"hljs/core.js": "es/core.min.js"}
        | {f"hljs/{name}.js": f"es/languages/{name}.min.js" for name in LANGUAGES.split()},
    ),
    Package(
        "katex",
        "0.19.1",
        "MIT",
        {"katex/katex.js": "dist/katex.min.js", "katex/katex.css": "dist/katex.min.css"}
        | {f"katex/fonts/KaTeX_{name}.woff2": f"dist/fonts/KaTeX_{name}.woff2" for name in FONTS.split()},
    ),
)


TESTS = (Package("axe-core", "4.14.1", "MPL-2.0", {"axe.js": "axe.min.js"}),)


@dataclass(frozen=True)
class Shelf:
    """A folder of vendored files."""

    folder: Path
    packages: tuple[Package, ...]

    @property
    def name(self) -> str:
        return self.folder.relative_to(ROOT).as_posix()

    def manifest(self) -> dict[str, list[dict[str, object]]]:
        path = self.folder / MANIFEST
        read: dict[str, list[dict[str, object]]] = (
            json.loads(path.read_text()) if path.exists() else {"packages": []}
        )
        return read


SHELVES = (
    Shelf(ROOT / "channels" / "websocket" / "web" / "vendor", PACKAGES),
    Shelf(ROOT / "tests" / "page" / "vendor", TESTS),  # never shipped: a wheel has no tests
)


def adapted(path: str, data: bytes) -> bytes:
    """Return the file as the page serves it: relative imports, no source map, woff2 fonts only, marked's lexer only."""
    if path.endswith(".js"):
        text = BARE.sub(lambda m: f"{m[1]}{m[2]}{NEIGHBOURS.get(m[3], m[3])}{m[2]}", data.decode())
        text = SOURCE_MAP.sub("", text).rstrip() + "\n"
        return (lexer_only(text) if path == "marked.js" else text).encode()
    if path.endswith(".css"):
        return (OLD_FONTS.sub("", data.decode()).rstrip() + "\n").encode()
    return data


def lexer_only(text: str) -> str:
    """Marked up to its lexer. The exports keep the names they have in the whole file."""
    renderer = LEXER_ONLY.search(text)
    exports = re.search(r"export\{([^}]*)\};?\s*$", text)
    if renderer is None or exports is None:
        raise SystemExit("marked is made differently now: look where its renderer begins")
    wanted = [one for one in exports[1].split(",") if one.endswith((" as Lexer", " as getDefaults"))]
    return f"{text[: renderer.start()]}export{{{','.join(wanted)}}};\n"


def fetch(package: Package, folder: Path) -> tuple[str, dict[str, bytes]]:
    """Return the package's integrity string, computed from the archive itself, and its files."""
    command = ["npm", "pack", "--silent", "--ignore-scripts", "--json", f"{package.name}@{package.version}"]
    answer = json.loads(
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    )
    packed = answer[0] if isinstance(answer, list) else next(iter(answer.values()))
    archive = folder / packed["filename"]
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if integrity != packed["integrity"]:
        raise SystemExit(f"{package.name}@{package.version}: the archive is not the one that was published")
    with tarfile.open(archive) as tar:
        wanted = {*package.files.values(), package.licence_file}
        files = {}
        for member in tar.getmembers():
            inner = member.name.split("/", 1)[-1]
            if inner in wanted and (stream := tar.extractfile(member)):
                files[inner] = stream.read()
    if missing := wanted - files.keys():
        raise SystemExit(f"{package.name}@{package.version} has no {', '.join(sorted(missing))}")
    return integrity, files


def vendor(shelf: Shelf) -> None:
    known = {row["name"]: row for row in shelf.manifest()["packages"]}
    rows, notices, keep = [], [], {MANIFEST, NOTICE}
    with tempfile.TemporaryDirectory() as folder:
        for package in shelf.packages:
            integrity, files = fetch(package, Path(folder))
            before = known.get(package.name, {})
            if before.get("version") == package.version and before["integrity"] != integrity:
                raise SystemExit(f"{package.name}@{package.version} changed since it was vendored: refused")
            hashes = {}
            for path, source in package.files.items():
                data = adapted(path, files[source])
                target = shelf.folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
                hashes[path] = {"from": source, "sha256": hashlib.sha256(data).hexdigest()}
            keep |= hashes.keys()
            rows.append(
                {
                    "name": package.name,
                    "version": package.version,
                    "licence": package.licence,
                    "integrity": integrity,
                    "files": hashes,
                }
            )
            text = files[package.licence_file].decode().strip()
            notices.append(f"## {package.name} {package.version} ({package.licence})\n\n```\n{text}\n```\n")
    for file in [file for file in shelf.folder.rglob("*") if file.is_file()]:
        if file.relative_to(shelf.folder).as_posix() not in keep:
            file.unlink()
    (shelf.folder / MANIFEST).write_text(json.dumps({"packages": rows}, indent=2) + "\n")
    head = (
        f"# Third-party software in {shelf.name}\n\n"
        "The files beside this one come from the packages below; `VENDOR.json` has their versions and hashes. "
        "Changes made to them: imports made relative, source-map comments, old font formats and all of marked but its lexer removed.\n\n"
    )
    (shelf.folder / NOTICE).write_text(head + "\n".join(notices))


def problems(shelf: Shelf) -> list[str]:
    """Say what is wrong with the vendor folder, without a network."""
    found, listed = [], {MANIFEST, NOTICE}
    rows = {row["name"]: row for row in shelf.manifest()["packages"]}
    for package in shelf.packages:
        row = rows.get(package.name)
        if row is None or row["version"] != package.version:
            found.append(
                f"{package.name}: the manifest does not have version {package.version}; run the script"
            )
            continue
        files = row["files"]
        assert isinstance(files, dict)
        if files.keys() != package.files.keys():
            found.append(f"{package.name}: the manifest lists other files than the script; run the script")
        for path, entry in files.items():
            listed.add(path)
            target = shelf.folder / path
            if not target.is_file():
                found.append(f"{path}: missing")
            elif hashlib.sha256(target.read_bytes()).hexdigest() != entry["sha256"]:
                found.append(f"{path}: changed by hand, its hash is not the recorded one")
            elif path.endswith(".js") and (bare := BARE.search(target.read_text())):
                found.append(f"{path}: imports {bare[3]!r} by a bare name")
        if f"## {package.name} {package.version} " not in (shelf.folder / NOTICE).read_text():
            found.append(f"{package.name}: no licence text in {NOTICE}")
    files_there = (
        file.relative_to(shelf.folder).as_posix() for file in shelf.folder.rglob("*") if file.is_file()
    )
    found.extend(f"{path}: not in the manifest" for path in files_there if path not in listed)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="verify hashes offline and change nothing")
    if not parser.parse_args().check:
        for shelf in SHELVES:
            vendor(shelf)
    failed = False
    for shelf in SHELVES:
        found = problems(shelf)
        failed = failed or bool(found)
        print("\n".join(found) or f"{shelf.name}: {len(shelf.packages)} packages, every hash is right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
