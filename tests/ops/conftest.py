"""Fixtures for the tools of operators: promtool, Prometheus, helm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """The path of a tool by its name."""

    def path_of(name: str) -> str:
        from tests.ops.places import BIN, missing

        path = BIN / name
        if not path.exists():
            missing(name)
        return str(path)

    return path_of


@pytest.fixture(scope="session")
def run(tool: Callable[[str], str]) -> Run:
    """Runs a tool; stdout and stderr in one stream. The caller checks the exit code."""

    def ran(name: str, *arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
        command = [tool(name), *map(str, arguments)]
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False, **more
        )

    return ran


@pytest.fixture(scope="session")
def dashboard() -> dict[str, Any]:
    """Grafana's JSON."""
    from tests.ops.places import DASHBOARD

    content: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return content


@pytest.fixture(scope="module")  # it ends before later modules run: its readers log warnings in this process
def stage(golden: Any, tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service under load and faults, watched by a real Prometheus."""
    from tests.ops.stage import Stage

    with Stage(golden, tool("prometheus"), tmp_path_factory.mktemp("stage")) as stage:
        yield stage
