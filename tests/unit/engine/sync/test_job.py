"""Job files, and what is wrong with them."""

from __future__ import annotations

import pathlib

import pytest

from penstock.engine.sync.job import MAX_ENTRIES, MAX_FILE_BYTES, SyncEntry, TargetUrl, load_job, parse_job
from penstock.proto.errors import ConfigurationError

PLAIN = '[[sync]]\nfrom = "/lake/*"\nto = "duckdb:///copy.db"\n'


def test_entries() -> None:
    text = (
        PLAIN
        + """
[[sync]]
from = "s3://bucket/shards/*"
to = "postgresql://me@host/db"
into = "orders"
pattern = ["orders_*", "o*"]
exclude = "orders_old"
key = ["id", "day"]
source_column = "shard"
server = "host:7070"
options.onCorrupt = "skip"
"""
    )
    assert parse_job(text, "job.toml") == (
        SyncEntry(source="/lake/*", target=TargetUrl("duckdb", "copy.db")),
        SyncEntry(
            source="s3://bucket/shards/*",
            target=TargetUrl("postgresql", "postgresql://me@host/db"),
            into="orders",
            pattern=("orders_*", "o*"),
            exclude=("orders_old",),
            key=("id", "day"),
            source_column="shard",
            options={"onCorrupt": "skip", "server": "host:7070"},
        ),
    )


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("duckdb:///copy.db", TargetUrl("duckdb", "copy.db")),
        ("duckdb:////data/copy.db", TargetUrl("duckdb", "/data/copy.db")),
        ("delta:////data/copies", TargetUrl("delta", "/data/copies")),
        ("delta+s3://bucket/copies", TargetUrl("delta", "s3://bucket/copies")),
        ("parquet:///copies", TargetUrl("parquet", "copies")),
        ("parquet+file:///my%20copies", TargetUrl("parquet", "/my copies")),
    ],
)
def test_targets(url: str, target: TargetUrl) -> None:
    assert parse_job(f'[[sync]]\nfrom = "a"\nto = "{url}"', "f")[0].target == target


def test_entry_continues_in_a_topic() -> None:
    text = PLAIN + 'then = "kafka://b:1/shop.{name}"\nwithout = ["day"]\nkey = "id"\ncolumns = {id = "int64"}\n'
    entry = parse_job(text, "f")[0]
    assert (entry.then, entry.without, entry.key) == ("kafka://b:1/shop.{name}", ("day",), ("id",))
    assert entry.columns == {"id": "int64"} and parse_job(PLAIN, "f")[0].then == ""
    assert parse_job(PLAIN + 'then = "kafka://b:1/orders"', "f")[0].then == "kafka://b:1/orders"


def test_source_column_has_a_default() -> None:
    assert parse_job(PLAIN + 'into = "all"', "f")[0].source_column == "_source"


def test_target_hides_the_password() -> None:
    entry = parse_job('[[sync]]\nfrom = "a"\nto = "postgresql://me:secret@host/db"', "f")[0]
    assert "secret" not in f"{entry} {entry.target} {entry!r}"


def test_error_hides_the_password() -> None:
    for url in ("delta://me:secret@host/lake", "mysql://me:secret@host/db"):
        with pytest.raises(ConfigurationError, match="to: got") as refused:
            parse_job(f'[[sync]]\nfrom = "a"\nto = "{url}"', "f")
        assert "secret" not in str(refused.value)


BAD = {
    "nothing": ("", r"f: expected 1 to 1000 \[\[sync\]\] entries"),
    "no toml": ("[[sync", r"f: not TOML: Expected"),
    "other table": (PLAIN + "[other]", "f: unknown key 'other'"),
    "sync is a table": ('[sync]\nfrom = "a"', r"f: expected 1 to 1000 \[\[sync\]\] entries"),
    "sync is a list of texts": ('sync = ["a"]', r"f: \[\[sync\]\] 1: expected keys and values"),
    "unknown key": (PLAIN + "ito = 1", r"f: \[\[sync\]\] 1: unknown key 'ito': did you mean into\?"),
    "no from": ('[[sync]]\nto = "duckdb:///a"', r"\[\[sync\]\] 1: from is missing"),
    "no to": ('[[sync]]\nfrom = "a"', r"\[\[sync\]\] 1: to is missing"),
    "empty from": ('[[sync]]\nfrom = ""\nto = "duckdb:///a"', "from: got '', expected a text"),
    "from is a number": ('[[sync]]\nfrom = 1\nto = "duckdb:///a"', "from: got 1, expected a text"),
    "empty into": (PLAIN + 'into = ""', "into: got '', expected a text"),
    "empty pattern": (PLAIN + 'pattern = [""]', "pattern: got .*, expected a text or a list of texts"),
    "pattern of numbers": (PLAIN + "pattern = [1]", "pattern: got .*, expected a text or a list of texts"),
    "key is a table": (PLAIN + "key = {a = 1}", "key: got .*, expected a text or a list of texts"),
    "source column of one table": (PLAIN + 'source_column = "a"', "source_column without into"),
    "options are a list": (PLAIN + "options = []", "options: expected names and values"),
    "option is a list": (PLAIN + "options.where = []", "options: expected names and values"),
    "unknown target": ('[[sync]]\nfrom = "a"\nto = "mysql://a"', "to: got 'mysql://a', expected duckdb://…"),
    "target without scheme": ('[[sync]]\nfrom = "a"\nto = "copy.db"', "to: got 'copy.db', expected duckdb://…"),
    "target without path": ('[[sync]]\nfrom = "a"\nto = "duckdb:///"', "expected duckdb:///PATH"),
    "DuckDB in an object store": (
        '[[sync]]\nfrom = "a"\nto = "duckdb+s3://b/copy.db"',
        "got 'duckdb\\+s3://b/copy.db', expected duckdb://: a DuckDB file is local",
    ),
    "PostgreSQL with a driver": (
        '[[sync]]\nfrom = "a"\nto = "postgresql+psycopg://h/d"',
        "expected postgresql://: the URL names no driver",
    ),
    "without, and no topic": (PLAIN + 'without = "a"', "without: only with `then`"),
    "name among the brokers": (
        PLAIN + 'then = "kafka://{name}:9092/orders"',
        "then: expected the topic that fills each",
    ),
    "topic with two names": (PLAIN + 'then = "kafka://b:1/{name}.{name}"', "one {name}, which is the name of"),
    "topic without brokers": (PLAIN + 'then = "{name}"', r"then: expected the topic .* kafka://BROKER:PORT/PREFIX"),
    "empty topic": (PLAIN + 'then = ""', "then: got '', expected a text"),
    "topics, and then a topic": (
        '[[sync]]\nfrom = "kafka://b:1/a"\nto = "duckdb:///a"\nthen = "kafka://b:1/{name}"',
        "then: `from` names topics already",
    ),
    "filter with a topic": (
        PLAIN + 'then = "kafka://b:1/{name}"\noptions.Where = "a = 1"',
        "where with then: the events of a topic are not filtered",
    ),
    "columns without a topic": (PLAIN + 'columns = {a = "int64"}', "columns: only topics need them"),
    "target with two slashes": ('[[sync]]\nfrom = "a"\nto = "duckdb://copy.db"', "expected duckdb:///PATH"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_job(case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(ConfigurationError, match=message):
        parse_job(text, "f")


def test_too_many_entries() -> None:
    with pytest.raises(ConfigurationError, match="expected 1 to 1000"):
        parse_job(PLAIN * (MAX_ENTRIES + 1), "f")


def test_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "job.toml"
    with pytest.raises(ConfigurationError, match=r"job.toml: cannot be read"):
        load_job(str(file))
    file.write_text(PLAIN)
    assert len(load_job(str(file))) == 1
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"job.toml: cannot be read"):
        load_job(str(file))
    file.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(ConfigurationError, match="longer than"):
        load_job(str(file))
