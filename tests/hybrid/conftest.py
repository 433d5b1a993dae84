"""The suite's modules on the path, beside those of the real Hudi suite; what needs brokers and Java is marked so."""

from __future__ import annotations

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path += [str(folder) for folder in (HERE, HERE.parent, HERE.parent / "interop", HERE.parent / "streaming")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """By the fixtures that a test asks for."""
    for item in items:
        if item.path.is_relative_to(HERE):
            names = getattr(item, "fixturenames", ())
            for fixture, mark in (("hudi", "interop"), ("kafka", "kafka"), ("spark", "spark")):
                if fixture in names:
                    item.add_marker(getattr(pytest.mark, mark))
