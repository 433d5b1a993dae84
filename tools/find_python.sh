#!/usr/bin/env bash
# Prints the first Python that can create the environment: 3.11 or newer, with venv and pip. If there is none, prints what
# to install and exits with 2. PYTHON=/path/to/python make … chooses one.
set -u

probe='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
for candidate in "${PYTHON:-}" python3 python3.11 python3.12 python3.13 python3.14 python; do
    if [ -n "$candidate" ] && "$candidate" -c "$probe" >/dev/null 2>&1; then
        "$candidate" -c 'import sys; print(sys.executable)'
        exit 0
    fi
done
cat >&2 <<TEXT
penstock: no Python 3.11 or newer with venv and pip was found (tried \$PYTHON, python3, python3.11 to python3.14, python).
Install it first, then run the same command again:
  Debian 12+, Ubuntu 24.04+:  apt-get install python3 python3-venv
  Fedora, RHEL:               dnf install python3.11
  macOS:                      brew install python@3.12
or name one: PYTHON=/path/to/python3.11 make …
TEXT
exit 2
