"""Paths of the files of deploy/ and of the tools that check them; `missing` for a tool that is not installed."""

from __future__ import annotations

import os
import pathlib
from typing import Final, NoReturn

import pytest

REPOSITORY: Final = pathlib.Path(__file__).resolve().parents[2]
DEPLOY: Final = REPOSITORY / "deploy"
CHART: Final = DEPLOY / "helm"
ALERTS: Final = CHART / "files" / "alerts.yml"
DASHBOARD: Final = CHART / "files" / "dashboard.json"
BIN: Final = REPOSITORY / ".cache" / "ops" / "bin"


def missing(what: str) -> NoReturn:
    """Fails the test in CI and skips it elsewhere."""
    text = f"{what} is missing: `bash tools/ops_tools.sh` installs it, or prints what to install"
    if os.environ.get("CI"):
        pytest.fail(text, pytrace=False)
    pytest.skip(text)
