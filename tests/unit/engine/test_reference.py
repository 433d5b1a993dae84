"""docs/reference/ matches the code, and every entry has a description."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
import typer

from penstock.enumerator.server.metrics.catalog import LABELS, METRICS
from penstock.enumerator.server.metrics.prometheus import Metrics
from penstock.proto.options.registry import option_named

TOOLS = pathlib.Path(__file__).parents[3] / "tools"
NAMES = ("options", "commands", "errors", "metrics", "server", "proto", "rendering")


@pytest.fixture(scope="module")
def tool() -> Iterator[Any]:
    """The generator, and its modules by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        module = importlib.import_module("generate_reference")
        modules = {name: importlib.import_module(f"reference.{name}") for name in NAMES}
        yield SimpleNamespace(pages=module.pages, stale=module.stale, **modules)


@pytest.fixture(scope="module")
def pages(tool: Any) -> dict[str, str]:
    """The expected pages."""
    result: dict[str, str] = tool.pages()
    return result


def test_reference_pages_match_the_code(tool: Any, pages: dict[str, str]) -> None:
    assert tool.stale(pages) == [], "run `make docs`"


def test_outdated_missing_or_extra_page_is_stale(tool: Any, pages: dict[str, str]) -> None:
    fewer = {name: text for name, text in pages.items() if name != "proto.md"}
    assert tool.stale(fewer | {"errors.md": "", "new.md": ""}) == ["errors.md", "new.md", "proto.md"]


def test_metrics_are_exposed_as_their_entries_declare() -> None:
    exposed = {family.name: family for family in Metrics().registry.collect()}
    assert exposed.keys() == METRICS.keys()
    for name, entry in METRICS.items():
        assert (exposed[name].type, exposed[name].documentation) == (entry.type, entry.doc)
        assert set(entry.labels) <= LABELS.keys()
    assert {label for entry in METRICS.values() for label in entry.labels} == LABELS.keys()


@pytest.mark.parametrize("text", ["", None, "  \n ", "x"])
def test_every_entry_needs_a_description(tool: Any, text: str | None) -> None:
    with pytest.raises(tool.rendering.Undescribed, match="metric m has no description"):
        tool.rendering.described("metric m", text)


def test_error_needs_a_text_and_an_advice_of_its_own(tool: Any) -> None:
    for missing in ("__doc__", "advice"):
        attributes = {"__doc__": "What it is.", "advice": "do this", "code": "BARE", "exit_code": 1}
        del attributes[missing]
        bare = type("Bare", (), attributes)  # not a subclass of PenstockError, which would add it to the error tree
        with pytest.raises(tool.rendering.Undescribed, match="BARE"):
            tool.errors.rows(bare, 0)


def test_commands_and_flags_need_help(tool: Any) -> None:
    app = typer.Typer()
    app.command("one")(lambda: None)

    @app.command("two")
    def two(loud: Annotated[bool, typer.Option("--loud")] = False) -> None: ...

    root: Any = typer.main.get_command(app)
    with pytest.raises(tool.rendering.Undescribed, match="command one"):
        list(tool.commands.commands(root, ()))
    with pytest.raises(tool.rendering.Undescribed, match="flag --loud of two"):
        tool.commands.flags("two", root.commands["two"].params)


def test_registry_flags_are_on_the_options_page(tool: Any) -> None:
    option = option_named("splitBytes")
    assert option is not None
    flag = SimpleNamespace(name="split_bytes", help=option.doc)
    assert tool.commands.of_registry(flag)
    flag.help = "the command's own meaning of it"
    assert not tool.commands.of_registry(flag)


def test_messages_and_fields_are_read_with_their_comments(
    tool: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'syntax = "proto3";\n\n// --- a part ---\n\n// What it is.\nmessage M {\n  map<string, uint64> n = 1;%s\n}\n'
    monkeypatch.setattr(tool.proto, "FOLDER", tmp_path)
    (tmp_path / "m.proto").write_text(text % "  // by name")
    (file,) = tool.proto.read()
    (message,) = file.descriptor.message_type
    assert file.heading(4, 0) == "a part"
    description = tool.proto.described_message(file, 0, message, {})
    assert "What it is." in description and "| `n` | 1 | map of string to uint64 | by name |" in description
    (tmp_path / "m.proto").write_text(text % "")
    (file,) = tool.proto.read()
    with pytest.raises(tool.rendering.Undescribed, match=r"field M\.n"):
        tool.proto.described_message(file, 0, message, {})


def test_cell_text_is_escaped_for_tables(tool: Any) -> None:
    assert tool.rendering.cell("a|b\\|c\nd") == r"a\|b\|c d"
