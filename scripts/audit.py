"""Known vulnerabilities of the locked packages, by pip-audit: `python scripts/audit.py`.

Exit code 1 where there are some, 2 where it could not be found out: then nothing is known, and that is no good news.
"""

import json
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOOL = "pip-audit==2.10.1"
PLACE = ROOT / ".cache" / "audit"  # an environment of its own: the tool is no library of ours
LOCKS = ("run.lock", "dev.lock", "build.lock", "model.lock")
SECONDS = 300.0


def main() -> int:
    program = PLACE / "bin" / "pip-audit"
    if not program.exists():
        venv.create(PLACE, with_pip=True)
        subprocess.run(
            [
                PLACE / "bin" / "python",
                "-m",
                "pip",
                "--disable-pip-version-check",
                "install",
                "--quiet",
                TOOL,
            ],
            check=True,
            timeout=SECONDS,
        )
    vulnerable, unknown = 0, 0
    for lock in LOCKS:
        found, unasked, error = audited(program, ROOT / "requirements" / lock)
        for line in found:
            print(f"{lock}: {line}")
        vulnerable += len(found)
        if error or unasked:
            unknown += 1
            print(
                f"{lock}: NOT AUDITED: {error or f'the service knew nothing of {unasked} packages'}",
                file=sys.stderr,
            )
        elif not found:
            print(f"{lock}: nothing known")
    if unknown:
        print(
            "The vulnerability service (pypi.org) does not answer from here; run this where it does.",
            file=sys.stderr,
        )
    return 1 if vulnerable else 2 if unknown else 0


def audited(program: Path, lock: Path) -> tuple[list[str], int, str]:
    """The vulnerabilities, how many packages could not be asked about, and why nothing is known at all."""
    command = [
        program,
        "--disable-pip",
        "--require-hashes",
        "-r",
        lock,
        "-f",
        "json",
        "--progress-spinner",
        "off",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return (
            [],
            0,
            (done.stderr.strip().splitlines() or [f"pip-audit ended with {done.returncode}"])[-1][:200],
        )
    found = [
        f"{one['name']} {one['version']}: {vulnerability['id']}, mended in {', '.join(vulnerability['fix_versions']) or '?'}"
        for one in packages
        for vulnerability in one.get("vulns", ())
    ]
    return found, sum("skip_reason" in one for one in packages), ""


if __name__ == "__main__":
    sys.exit(main())
