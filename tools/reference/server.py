"""docs/reference/server.md, from the settings of a server, its flags and its environment."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_args, get_type_hints

import typer

from penstock.engine.cli.command_line import command_line
from penstock.enumerator.server.config import catalogs, settings
from penstock.enumerator.server.config.fields import camel
from penstock.enumerator.server.config.load import environment_variables
from reference.rendering import Page, code, described, table

HEAD = """Keys of the TOML file of `penstock serve --config FILE`, their environment variables and flags. A flag
overrides the environment, the environment overrides the file, the file overrides the default. A wrong key is an error
that names the key, the file and the nearest valid key. `penstock config check FILE` reports all problems without
starting a server. [Operations](../operations.md) describes their use.

"""
FLAGS = {"table": "tables", "poll_interval": "poll_interval_ms", "lease": "lease_ms"}
"""Flags with another name than their key."""


def page() -> Page:
    """The page."""
    classes = (
        (settings.Settings, ()),
        (settings.TableSettings, ("tables", "NAME")),
        (catalogs.CatalogSettings, ("catalog", "NAME")),
        (settings.TlsSettings, ("tls",)),
        (settings.LimitSettings, ("limits",)),
        (settings.AclRule, ("acl",)),
    )
    body = HEAD + "\n".join(section(cls, path) for cls, path in classes)
    about = "every key of a server's configuration, with its environment variable and flag"
    return Page("server", "Server configuration", about, "enumerator/server/config/settings.py", body)


def section(cls: Any, path: tuple[str, ...]) -> str:
    """The keys of one class."""
    docs = field_docs(cls)
    variables, flags = environment_variables(), serve_flags() if not path else {}
    rows = []
    for field in fields(cls):
        key = camel(field.name)
        doc = described(f"key {'.'.join((*path, key))}", docs.get(field.name))
        variable = variables.get((*path, key), "")
        rows.append(
            (
                code(key),
                form(cls, field),
                default(field),
                code(variable) or "–",
                code(flags.get(field.name, "")) or "–",
                doc,
            )
        )
    title = f"## {'.'.join(path) if path else 'The server'}\n\n{described(cls.__name__, inspect.getdoc(cls))}\n\n"
    return title + table(("key", "value", "default", "environment", "flag", "what it does"), rows)


def field_docs(cls: Any) -> dict[str, str]:
    """The docstring of each field of the class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, doc in zip(body.body, body.body[1:], strict=False):
        is_text = isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            texts[field.target.id] = inspect.cleandoc(doc.value.value)
    return texts


def form(cls: Any, field: Field[Any]) -> str:
    """The form of a value, and its range."""
    hint = get_type_hints(cls)[field.name]
    limits: Mapping[str, tuple[float, float]] = getattr(cls, "ranges", {})
    if field.name in limits:
        least, most = limits[field.name]
        return f"{least:,.0f} to {most:,.0f}" + (" ms" if field.name.endswith("_ms") else "")
    kinds = [each for each in get_args(hint) if each not in (type(None), ...)] or [hint]
    if any(is_dataclass(each) for each in kinds):
        return "table"
    words = [word for each in kinds for word in get_args(each) if isinstance(word, str)]
    if words:
        return "list of " + ", ".join(map(code, words))
    if hint in (str, bool):
        return "text" if hint is str else "true, false"
    return "list of texts" if str(hint).startswith("tuple") else "table"


def default(field: Field[Any]) -> str:
    """The default; none if the key is required."""
    if field.default_factory is not MISSING:
        return "below" if is_dataclass(field.default_factory) else "empty"
    if field.default is MISSING:
        return "required"
    if field.default is None or field.default in ("", ()):
        return "empty" if field.default is not None else "none"
    value = field.default
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, int | float):
        return f"{value:,.0f}"
    return code(value if isinstance(value, str) else list(value))


def serve_flags() -> dict[str, str]:
    """Field -> the flag of `penstock serve` that sets it."""
    command: Any = typer.main.get_command(command_line())
    params = command.commands["serve"].params
    return {FLAGS.get(each.name, each.name): f"{each.opts[0]} {each.metavar or ''}".strip() for each in params}
