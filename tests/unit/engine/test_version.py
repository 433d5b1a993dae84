"""`penstock.version` is the only source of the version; other places derive from it or agree."""

from __future__ import annotations

import pathlib
import re

import yaml

from penstock.version import __version__

ROOT = pathlib.Path(__file__).parents[3]


def test_version_is_a_release() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_chart_has_the_version() -> None:
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_changelog_begins_with_the_version() -> None:
    headings = re.findall(r"^## (\S+)( \(unreleased\))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0][0] == __version__
    assert [unreleased for _, unreleased in headings[1:] if unreleased] == []


def test_version_is_stated_only_once() -> None:
    """Sources, deployments and documentation; measurement results state the version that was measured."""
    places = [ROOT / name for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile")]
    for folder in ("proto", "table", "kafka", "enumerator", "reader", "writer", "engine", "deploy", "tools"):
        places += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".yaml", ".toml", ".sh", ""}]
    places += [
        page for page in (ROOT / "docs").rglob("*.md") if page.name != "performance.md" and "results" not in page.parts
    ]
    stating = [
        path.name
        for path in places
        if path.is_file()
        and re.search(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])", path.read_text(errors="replace"))
    ]
    assert stating == ["Chart.yaml"]
