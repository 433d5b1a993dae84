#!/usr/bin/env bash
# Creates or updates .venv: an editable install of Penstock with the dependencies of its suites, at the versions of CI.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! .venv/bin/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    python=$(bash tools/find_python.sh)
    echo "penstock: setting up .venv with $python (once; a few minutes on a fresh machine)" >&2
    rm -rf .venv
    "$python" -m venv .venv
fi
install=(.venv/bin/python -m pip install -qq --disable-pip-version-check -c requirements/constraints.txt)
"${install[@]}" pip setuptools wheel
"${install[@]}" --no-build-isolation -e '.[test]'
# Daft's metadata excludes the newest pyarrow and tqdm, with which its suite passes.
"${install[@]}" --no-deps -r requirements/daft.txt
touch .venv/.ready
