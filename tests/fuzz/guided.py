"""Coverage-guided fuzzing with atheris: `python -m tests.fuzz.guided SECONDS [TARGET]`; all targets share the time.

An input that breaks a promise is written to tests/artifacts/fuzz/ and printed; the exit code is then 1. What was found
interesting stays there too, and the next run begins with it.
"""

import subprocess
import sys
from pathlib import Path

from tests.fuzz.corpus import NAMES, corpus

FOUND = Path(__file__).parents[1] / "artifacts" / "fuzz"


def every(seconds: int) -> int:
    """One target after the other, each in a process of its own, which libFuzzer ends."""
    failed = []
    for name in NAMES:
        share = max(1, seconds // len(NAMES))
        command = [sys.executable, "-m", "tests.fuzz.guided", str(share), name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        told = [
            line for line in done.stderr.splitlines() if line.startswith("stat::number_of_executed_units")
        ]
        count = told[0].split()[-1] if told else "?"
        print(
            f"{name:18} {share} s, {count} inputs: {'nothing found' if not done.returncode else 'BROKEN'}",
            flush=True,
        )
        if done.returncode:
            failed.append(name)
            print(done.stdout[-3000:] + done.stderr[-1500:])
    return 1 if failed else 0


def one(name: str, seconds: int) -> None:
    import atheris

    # What is imported here reports its branches.
    with atheris.instrument_imports(include=["nanobot", "channels"]):
        from tests.fuzz.targets import TARGETS

    seeds = FOUND / "corpus" / name
    seeds.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(corpus(name)):
        (seeds / f"seed-{number}").write_bytes(data)
    target = TARGETS[name]
    options = ["-max_len=20000", "-timeout=20", "-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup(
        [
            sys.argv[0],
            *options,
            f"-max_total_time={seconds}",
            f"-artifact_prefix={FOUND}/{name}-",
            str(seeds),
        ],
        lambda data: target(bytes(data)),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        one(sys.argv[2], int(sys.argv[1]))
    else:
        sys.exit(every(int(sys.argv[1])))
