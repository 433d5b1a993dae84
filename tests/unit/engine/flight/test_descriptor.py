"""Descriptors of flights: paths, commands, and everything that is neither."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.engine.flight import descriptor
from penstock.engine.flight.descriptor import (
    KEYS,
    MAX_COMMAND_BYTES,
    MAX_TABLE_CHARS,
    request_of_command,
    request_of_path,
)
from penstock.engine.requests.where import where_text
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import OPTIONS, EntryPoint


def command(**keys: Any) -> bytes:
    return json.dumps(keys).encode()


def test_path_is_a_snapshot() -> None:
    request = request_of_path([b"orders"])
    assert (request.table, request.options) == ("orders", {})
    parsed = request.parsed({})
    assert (parsed.query, parsed.limit, parsed.columns) == ("snapshot", None, ())


@pytest.mark.parametrize("path", [[], [b"a", b"b"], [b""], [b"\xff"], [b"x" * (MAX_TABLE_CHARS + 1)], [b"x" * 2**20]])
def test_bad_path(path: list[bytes]) -> None:
    with pytest.raises(ConfigurationError, match="flight descriptor: "):
        request_of_path(path)


class Key(str):
    """A key that counts comparisons."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Key.compared += 1
        return str.__eq__(self, other)


def test_repeated_key_among_many_takes_linear_time() -> None:
    """The last key is given twice: comparing each key with each other takes 12 million comparisons."""
    keys = [Key(number) for number in range(5000)]
    Key.compared = 0
    with pytest.raises(ValueError, match="key '4999' is given twice"):
        descriptor._without_repeated_keys([(key, None) for key in [*keys, Key("4999")]])
    assert Key.compared < 10 * len(keys)


def test_command_with_options() -> None:
    request = request_of_command(
        command(table="orders", query="incremental", after="earliest", columns=["id", "v"], where="v > 1", limit=5)
    )
    assert request.table == "orders"
    parsed = request.parsed({})
    assert (parsed.query, parsed.after, parsed.columns, parsed.where, parsed.limit) == (
        "incremental",
        "earliest",
        ("id", "v"),
        "v > 1",
        5,
    )


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ([["v", "=", 1]], [("v", "=", 1)]),
        ([["v", "in", [1, 2]], ["w", "!=", "x"]], [("v", "in", [1, 2]), ("w", "!=", "x")]),
        ([[["v", "<", 1], ["w", "=", "x"]], [["v", ">", 5]]], [[("v", "<", 1), ("w", "=", "x")], [("v", ">", 5)]]),
        ([[["a", "b"], "=", 1]], [(("a", "b"), "=", 1)]),
    ],
)
def test_conditions_as_lists(where: object, text: Any) -> None:
    """A struct's field is a list of names."""
    try:
        expected = where_text(text)
    except ConfigurationError:
        with pytest.raises(ConfigurationError):
            request_of_command(command(table="t", where=where))
    else:
        assert request_of_command(command(table="t", where=where)).options == {"where": expected}


@pytest.mark.parametrize(
    "where", [[], [1], ["v = 1"], [["v"]], [["v", "="]], [["v", "~", 1]], [[1, "=", 1]], [[[]]], [["v", "=", {"a": 1}]],
    [["v", "in", {"a": 1}]], [["v", "=", 10**4000]]],
)  # fmt: skip
def test_malformed_conditions(where: object) -> None:
    with pytest.raises(ConfigurationError):
        request_of_command(command(table="t", where=where))


def test_null_counts_as_not_given() -> None:
    assert request_of_command(command(table="t", limit=None)).options == {}


def test_every_key_is_an_option_of_a_read() -> None:
    by_name = {option.name: option for option in OPTIONS}
    for key in KEYS:
        assert EntryPoint.ARROW in by_name[key].entry_points, key
    assert not [key for key in KEYS if key.startswith(("server", "kafka", "hybrid", "retry"))]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not a JSON object"),
        (b"orders", "not a JSON object"),
        (b"\xff\xfe", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"[]", "JSON of type list"),
        (b'"orders"', "JSON of type str"),
        (b"{}", "`table` is missing"),
        (command(table=5), "`table` is missing or no text"),
        (command(table=""), "table: got nothing"),
        (command(table="t", colums=["a"]), "unknown key 'colums': did you mean 'columns'"),
        (command(table="t", server="10.0.0.1:7070"), "unknown key 'server'"),
        (command(table="t", serverToken="/etc/passwd"), "unknown key 'serverToken'"),
        (command(table="t", TABLE="u"), "unknown key 'TABLE'"),
        (command(table="t", mergers={"a": "os:system"}), "unknown key 'mergers'"),
        (b'{"table": "t", "table": "u"}', "'table' is given twice"),
        (command(table="t", columns=[1]), "key columns: got a list with other values"),
        (command(table="t", where={"v": 1}), "key where: got JSON of type dict"),
        (b'{"table": "t", "where": ' + b"[0,0," * 900 + b"0" + b"]" * 900 + b"}", "key where"),
        (command(table="t", limit=1.5), "key limit: got JSON of type float"),
        (command(table="t", where="x" * MAX_COMMAND_BYTES), "expected at most"),
    ],
)
def test_bad_command(data: bytes, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"flight descriptor: .*{text}") as caught:
        request_of_command(data)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("options", [{"limit": -1}, {"limit": "many"}, {"query": "sum"}, {"batchRows": 0}])
def test_bad_value_of_an_option(options: dict[str, Any]) -> None:
    request = request_of_command(command(table="t", **options))
    with pytest.raises(ConfigurationError, match=f"option {next(iter(options))}"):
        request.parsed({})


def test_environment_of_the_server_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LIMIT", "1")
    assert request_of_path([b"t"]).parsed({}).limit is None


def test_options_of_the_server_reach_the_planner() -> None:
    assert request_of_path([b"t"]).parsed({"server": "127.0.0.1:7070"}).server == "127.0.0.1:7070"
