"""The picture on the front page equals the output of its source."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import xml.etree.ElementTree as ET
from types import ModuleType

import pytest

from tests.docs.doc_pages import REPOSITORY


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_overview", REPOSITORY / "tools" / "draw_overview.py")
    assert spec and spec.loader
    module = sys.modules.setdefault("draw_overview", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


def test_picture_matches_its_source(tool: ModuleType, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["draw_overview.py", "--check"])
    assert tool.main() == 0
    monkeypatch.setattr(tool, "TARGET", tmp_path / "overview.svg")
    assert tool.main() == 1
    tool.TARGET.write_text(tool.drawing().replace("Enumerator", "Planner"))
    assert tool.main() == 1


def test_picture_has_every_part_in_both_colour_schemes(tool: ModuleType) -> None:
    picture = ET.fromstring(tool.drawing())
    texts = {element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Hudi table", "Kafka topic", "Enumerator", "Readers", "Writer", "Spark", "Python", "Command line"} <= texts
    style = next(picture.iter("{http://www.w3.org/2000/svg}style")).text or ""
    assert "prefers-color-scheme: dark" in style


def test_picture_lies_within_its_frame(tool: ModuleType) -> None:
    for part in tool.DRAWING:
        if isinstance(part, tool.Box):
            assert part.x + part.width < tool.WIDTH and part.y + part.height < tool.HEIGHT, part.title
