"""What only PostgreSQL has: the connection, its errors, other users of the database."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_postgresql import dbapi

from penstock.engine.sync.job import parse_target
from penstock.engine.sync.layout import TargetLayout
from penstock.engine.sync.targets import postgresql as module
from penstock.engine.sync.targets.postgresql import PostgreSQLTarget
from penstock.engine.sync.targets.postgresql_connections import parsed_url
from penstock.proto.errors import ConfigurationError, TargetUnavailable
from tests.postgres_server import PASSWORD, QUOTED_PASSWORD, PostgresServer
from tests.unit.engine.sync.targets.backends import InPostgreSQL
from tests.unit.engine.sync.targets.writes import COLUMNS, batch, write


@pytest.fixture
def target(postgresql: InPostgreSQL) -> Iterator[PostgreSQLTarget]:
    opened = PostgreSQLTarget(postgresql.url)
    yield opened
    opened.close()


def sql(server: PostgresServer, text: str, values: list[Any] | None = None) -> list[Any]:
    with dbapi.connect(server.url(), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.description else []


def schema_of(backend: InPostgreSQL) -> str:
    return backend.url.rpartition("=")[2]


def test_restarted_server_is_unavailable_and_then_continues(target: PostgreSQLTarget, postgresql: InPostgreSQL) -> None:
    target.write(write("p1", [("a", 1, "x")]))
    postgresql.server.stop()
    with pytest.raises(TargetUnavailable) as gone:
        target.write(write("p2", [("b", 1, "x")], expected="p1"))
    with pytest.raises(TargetUnavailable):
        target.stored("orders")
    postgresql.server.start()
    stored = target.stored("orders")
    assert stored is not None
    assert stored.positions == {"/lake/orders": "p1"}
    target.write(write("p2", [("b", 1, "x")], expected="p1"))
    assert len(postgresql.rows("orders", COLUMNS)) == 2
    assert PASSWORD not in str(gone.value)
    assert QUOTED_PASSWORD not in str(gone.value)


def test_read_only_server_is_unavailable(target: PostgreSQLTarget, postgresql: InPostgreSQL) -> None:
    """As a standby, until it becomes the primary."""
    target.write(write("p1", [("a", 1, "x")]))
    read_only = PostgreSQLTarget(f"{postgresql.url}&options=-cdefault_transaction_read_only%3Don")
    with pytest.raises(TargetUnavailable, match="read-only transaction"):
        read_only.write(write("p2", [("b", 1, "x")], expected="p1"))
    read_only.close()
    target.write(write("p2", [("b", 1, "x")], expected="p1"))


def test_server_that_ends_in_the_middle_of_rows_is_unavailable(
    target: PostgreSQLTarget, postgresql: InPostgreSQL
) -> None:
    target.write(write("p1", [("a", 1, "x")]))
    failing = write("p2", expected="p1")

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch([("b", 1, "x")], COLUMNS)
        postgresql.server.stop()
        yield batch([("c", 1, "x")], COLUMNS)

    object.__setattr__(failing, "rows", rows())
    try:
        with pytest.raises(TargetUnavailable):
            target.write(failing)
    finally:
        postgresql.server.start()
    assert postgresql.rows("orders", COLUMNS) == [("a", 1, "x")]


@pytest.mark.parametrize(
    ("password", "database", "expected"),
    [("wr%2Fong", "postgres", "authentication failed"), (QUOTED_PASSWORD, "nowhere", "does not exist")],
)
def test_wrong_login_is_an_error_without_the_password(
    server: PostgresServer, password: str, database: str, expected: str
) -> None:
    target = PostgreSQLTarget(server.url(database, password=password))
    with pytest.raises(ConfigurationError, match=expected) as refused:
        target.stored("orders")
    texts = (str(refused.value), repr(refused.value), repr(target), repr(parse_target("", server.url())))
    for secret in (PASSWORD, QUOTED_PASSWORD, "wr/ong", "wr%2Fong"):
        assert not any(secret in text for text in texts)
    assert refused.value.__cause__ is None, "the error of the driver is not shown: it may have the URL"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://u:p%2F@h:5/d?schema=a%20b&sslmode=require",
         ("postgresql://u:p%2F@h:5/d?sslmode=require", "a b", "postgresql://h:5/d?schema=a b")),
        ("postgresql://h/d", ("postgresql://h/d", "public", "postgresql://h/d")),
        ("postgresql://u@/d?host=%2Ftmp", ("postgresql://u@/d?host=%2Ftmp", "public", "postgresql:///d")),
    ],
)  # fmt: skip
def test_url_is_split_into_its_parts(url: str, expected: tuple[str, str, str]) -> None:
    assert parsed_url(url) == expected


def test_url_with_a_bad_port_is_refused_without_the_password() -> None:
    with pytest.raises(ConfigurationError, match="percent-encoded") as refused:
        PostgreSQLTarget("postgresql://u:se/cret@h:x/d")
    assert "cret" not in str(refused.value)


def test_url_without_a_database_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no database") as refused:
        PostgreSQLTarget("postgresql://u:secret@h/?schema=s")
    assert "secret" not in str(refused.value)


def test_schemas_of_one_database_are_different_targets() -> None:
    """A job opens each target once, by this text."""
    one, other, again = (
        str(parse_target("", f"postgresql://u:{password}@h/d?schema={schema}&password=pw&sslmode=require"))
        for password, schema in (("p", "a"), ("p", "b"), ("q", "a"))
    )
    assert (one, other, again) == ("postgresql: postgresql://h/d?schema=a", one.replace("=a", "=b"), one)


def test_schema_names_that_are_too_long_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="64 bytes"):
        PostgreSQLTarget(f"postgresql://h/d?schema={'x' * 64}")


def test_table_of_someone_else_is_refused(target: PostgreSQLTarget, postgresql: InPostgreSQL) -> None:
    target.write(write("p1", table="other"))
    for kind in ("TABLE orders (a int)", "VIEW customers AS SELECT 1 AS one"):
        sql(postgresql.server, f"CREATE {kind.replace(' ', f' {schema_of(postgresql)}.', 1)}")
        with pytest.raises(ConfigurationError, match="no sync created it"):
            target.stored(kind.split()[1])


def test_changed_type_of_a_column_is_refused(target: PostgreSQLTarget, postgresql: InPostgreSQL) -> None:
    target.write(write("p1", [("a", 1, "x")]))
    table = f"{schema_of(postgresql)}.orders"
    sql(postgresql.server, f"ALTER TABLE {table} ALTER COLUMN n TYPE bigint")
    with pytest.raises(ConfigurationError, match=r"column n is bigint, the sync created it as integer"):
        target.write(write("p2", [("b", 1, "x")], expected="p1"))
    sql(postgresql.server, f"ALTER TABLE {table} ALTER COLUMN n TYPE integer, ADD COLUMN note text DEFAULT 'own'")
    target.write(write("p2", [("b", 1, "x")], [("b", 1)], expected="p1"))
    assert sorted(postgresql.rows("orders", COLUMNS)) == [("a", 1, "x"), ("b", 1, "x")]


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        (pa.string(), pa.array(["a\0b"]), "0x00"),
        (pa.date32(), pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), "date out of range"),
        (pa.timestamp("us"), pa.array([-(2**63)], pa.timestamp("us")), "COPY"),
        (pa.list_(pa.string()), pa.array([["a\0b"]]), "u0000"),
        (pa.list_(pa.date32()), pa.array([[10**8]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())), "years"),
    ],
    ids=str,
)
def test_value_that_postgresql_does_not_have_is_refused(
    target: PostgreSQLTarget, postgresql: InPostgreSQL, type_: pa.DataType, values: pa.Array, expected: str
) -> None:
    columns = pa.schema([("v", type_), ("k", pa.int32())])
    layout = TargetLayout(columns, ("k",))
    target.write(write("p1", layout=layout))
    refused = write("p2", layout=layout, expected="p1")
    rows = pa.RecordBatch.from_arrays([values, pa.array([1], pa.int32())], schema=columns)
    object.__setattr__(refused, "rows", iter([rows]))
    with pytest.raises(ConfigurationError, match=expected):
        target.write(refused)
    assert postgresql.rows("orders", columns) == []
    target.write(write("p2", layout=layout, expected="p1"))


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "ü" * 32, "ctid"])
def test_names_that_postgresql_cannot_hold_are_refused(target: PostgreSQLTarget, name: str) -> None:
    with pytest.raises(ConfigurationError, match="orders"):
        target.check_columns("orders", pa.schema([(name, pa.int32())]))


@pytest.mark.parametrize("name", ["", "x" * 64, "_penstock_positions"])
def test_table_names_that_postgresql_cannot_hold_are_refused(target: PostgreSQLTarget, name: str) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        target.check_columns(name, COLUMNS)


def test_too_many_columns_are_refused(target: PostgreSQLTarget) -> None:
    with pytest.raises(ConfigurationError, match="1601 columns"):
        target.check_columns("orders", pa.schema([(f"c{number}", pa.int32()) for number in range(1601)]))


def test_transaction_of_another_process_is_unavailable(
    target: PostgreSQLTarget, postgresql: InPostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.write(write("p1"))
    other = PostgreSQLTarget(postgresql.url)
    refused: list[type] = []
    waiting = write("p2", expected="p1")

    def rows() -> Iterator[pa.RecordBatch]:
        monkeypatch.setattr(module, "LOCK_TIMEOUT_MS", 1)
        for call in (lambda: other.stored("orders"), lambda: other.write(write("p2", expected="p1"))):
            with pytest.raises(TargetUnavailable, match="lock timeout"):
                call()
            refused.append(TargetUnavailable)
        monkeypatch.undo()
        other.write(write("p1", table="another"))
        yield batch([("a", 1, "x")], COLUMNS)

    object.__setattr__(waiting, "rows", rows())
    target.write(waiting)
    assert len(refused) == 2
    other.close()


def test_tables_are_written_at_the_same_time(target: PostgreSQLTarget, postgresql: InPostgreSQL) -> None:
    barrier = threading.Barrier(4, timeout=60)

    def fill(table: str) -> None:
        def rows() -> Iterator[pa.RecordBatch]:
            barrier.wait()  # all transactions are open
            yield batch([("a", 1, table)], COLUMNS)

        first = write("p1", table=table)
        object.__setattr__(first, "rows", rows())
        target.write(first)

    target.write(write("p1"))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, [f"t{number}" for number in range(4)]))
    assert [postgresql.rows(f"t{number}", COLUMNS) for number in range(4)] == [[("a", 1, f"t{n}")] for n in range(4)]


def test_no_connection_stays_in_a_transaction(target: PostgreSQLTarget, postgresql: InPostgreSQL) -> None:
    target.write(write("p1"))
    assert target.stored("orders") is not None
    states = sql(
        postgresql.server,
        "SELECT state FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'penstock' "
        "AND backend_type = 'client backend'",
    )
    assert {state for (state,) in states} == {"idle"}


def test_numbers_in_nested_columns_keep_their_digits(target: PostgreSQLTarget, postgresql: InPostgreSQL) -> None:
    columns = pa.schema([("k", pa.int32()), ("v", pa.list_(pa.int64()))])
    target.write(write("p1", [(1, [2**63 - 1])], layout=TargetLayout(columns, ("k",))))
    (text,) = sql(postgresql.server, f"SELECT v::text FROM {schema_of(postgresql)}.orders")[0]
    assert json.loads(text) == [2**63 - 1]


def test_key_has_an_index(target: PostgreSQLTarget, postgresql: InPostgreSQL) -> None:
    target.write(write("p1", [("a", 1, "x")]))
    target.write(write("p2", [], [("a", 1)], expected="p1"))
    found = sql(postgresql.server, "SELECT indexdef FROM pg_indexes WHERE schemaname = $1", [schema_of(postgresql)])
    assert any("orders USING btree (k, n)" in text for (text,) in found)


@pytest.mark.parametrize("is_indexed", [True, False])
def test_keys_that_are_too_long_for_an_index_are_kept(
    target: PostgreSQLTarget, postgresql: InPostgreSQL, is_indexed: bool
) -> None:
    long = "".join(map(chr, random.Random(1).sample(range(0x4E00, 0x9FFF), 4_000)))
    target.write(write("p1", [("a", 1, "x")]))
    if is_indexed:
        target.write(write("p2", [("b", 1, "x")], [("b", 1)], expected="p1"))
    else:
        target.write(write("p2", [(long, 1, "old"), ("b", 1, "x")], expected="p1"))
    change = [(long, 1, "new")], [(long, 1), ("a", 1)]
    with pytest.raises(TargetUnavailable, match="the index on the key is removed"):
        target.write(write("p3", *change, expected="p2"))
    target.write(write("p3", *change, expected="p2"))
    target.write(write("p4", [], [("b", 1)], expected="p3"))
    assert postgresql.rows("orders", COLUMNS) == [(long, 1, "new")]


def test_row_that_is_too_long_stops(target: PostgreSQLTarget, postgresql: InPostgreSQL) -> None:
    """The limit is not that of the index, which a retry does without."""
    names = [f"c{number}" for number in range(1_500)]
    layout = TargetLayout(pa.schema([(name, pa.int64()) for name in names]), ("c0",))
    target.write(write("p1", layout=layout))
    row = [tuple(range(1_500))]
    with pytest.raises(TargetUnavailable, match="index"):
        target.write(write("p2", row, expected="p1", layout=layout))
    with pytest.raises(ConfigurationError, match="row is too big"):
        target.write(write("p2", row, expected="p1", layout=layout))


def test_password_in_a_parameter_is_not_in_an_error(server: PostgresServer) -> None:
    """Here it is also the user's name, which PostgreSQL prints."""
    url = f"postgresql://penstock@127.0.0.1:{server.port}/postgres?password=penstock"
    with pytest.raises(ConfigurationError, match=r'authentication failed for user "\*\*\*"'):
        PostgreSQLTarget(url).stored("orders")


def test_one_failure_discards_all_connections_of_a_server(target: PostgreSQLTarget, postgresql: InPostgreSQL) -> None:
    first = write("p1")

    def rows() -> Iterator[pa.RecordBatch]:
        target.write(write("p1", table="other"))  # in a second connection
        yield batch([("a", 1, "x")], COLUMNS)

    target.write(write("p1", table="another"))
    object.__setattr__(first, "rows", rows())
    target.write(first)
    postgresql.server.stop()
    postgresql.server.start()
    with pytest.raises(TargetUnavailable):
        target.stored("orders")
    for table in ("orders", "other", "another"):
        assert target.stored(table) is not None
