"""Schemathesis over docs/openapi.json against a real gateway on loopback: `python -m tests.fuzz.rest SECONDS`.

It looks for requests that the gateway answers otherwise than the document says. Half of the names that it uses are of
things that are there. What it found is printed with a request to try again by hand; the exit code is then 1.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.rest_house import DOCUMENT, RestHouse, started
from tests.security.house import OWNER, model

HOME = Path(sys.prefix) / "schemathesis"  # apart from the rest, since every pytest would load its plugin
# In JSON Schema 1.0 is an integer, and this is the one integer of a body: see `Resolve`.
PEDANTRY = (
    '[[operations]]\ninclude-operation-id = "resolve"\nchecks.positive_data_acceptance.enabled = false\n'
)


def main(seconds: int) -> int:
    with TemporaryDirectory() as folder, model() as url, started(Path(folder), url) as house:
        settings = Path(folder) / "schemathesis.toml"
        settings.write_text(configuration(house))
        done = subprocess.run(
            [
                str(HOME / "bin" / "st"), "--config-file", str(settings), "run", str(DOCUMENT), "--no-color",
                "--url", house.gateway.url, "--header", f"Authorization: Bearer {OWNER}", "--max-time", str(seconds),
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(HOME)},
            check=False,
        )  # fmt: skip
        told = [line for line in house.gateway.log().splitlines() if "ERROR" in line or "Traceback" in line]
        print("\n".join(["the gateway's log has:", *told] if told else ["the gateway's log has no error"]))
        house.get("/healthz")
    return 1 if done.returncode or told else 0


def configuration(house: RestHouse) -> str:
    """Schemathesis's settings: the names of what is there, to be used now and then."""
    paths = json.loads(DOCUMENT.read_text())["paths"]
    operations = {one["operationId"]: (path, one) for path, ways in paths.items() for one in ways.values()}
    names: dict[str, set[str | int]] = {}
    for operation, known in house.known.items():
        path, told = operations[operation]
        for name, value in ((name, value) for one in known for name, value in one.items()):
            place = "path" if f"{{{name}}}" in path else "body" if "requestBody" in told else "query"
            names.setdefault(f"{place}.{name}", set()).add(value)
    lines = [PEDANTRY]
    for place, values in sorted(names.items()):
        lines.append(f'[dictionaries."{place}"]\nvalues = {json.dumps(sorted(values, key=str))}')
        lines.append(f'[parameters."{place}"]\ndictionary = "{place}"\nprobability = 0.5')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
