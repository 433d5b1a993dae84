#!/usr/bin/env bash
# Builds the wheel and installs only it into .venv-wheel; its dependencies are imported from .venv. Checkers and tests run
# by .venv-wheel/bin/python use the installed package, not this tree.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf build dist .venv-wheel # a stale build/ would keep deleted modules in the wheel
log=$(mktemp)
trap 'rm -f "$log"' EXIT
.venv/bin/python -m build --wheel --no-isolation --outdir dist . >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
rm -rf build
.venv/bin/python -m venv --without-pip .venv-wheel
.venv/bin/python -m pip --python .venv-wheel/bin/python install --quiet --disable-pip-version-check --no-deps dist/*.whl
where='import sysconfig; print(sysconfig.get_path("purelib"))'
dependencies=$(.venv/bin/python -c "$where")
echo "$dependencies" >"$(.venv-wheel/bin/python -c "$where")/dependencies-of-penstock.pth"
