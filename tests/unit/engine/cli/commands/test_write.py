"""`penstock create`, `penstock write` and `penstock rollback`."""

from __future__ import annotations

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from tests.unit.engine.cli.command_line import Cli


def test_reports_as_json(cli: Cli, tmp_path: pathlib.Path) -> None:
    table, file = str(tmp_path / "orders"), tmp_path / "orders.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "n": [1, 2]}), file)
    created = cli("create", table, "--schema", str(file), "--record-key", "id", "--buckets", "1", "--format", "json")
    assert (created.code, json.loads(created.text)) == (0, {"table": table, "table_version": 9})
    written = json.loads(cli("write", table, str(file), "--format", "json").text)
    assert (written["rows"], written["inserted"]) == (2, 2)
    assert sorted(penstock.read(table).read_all()["id"].to_pylist()) == ["a", "b"]
    rolled_back = cli("rollback", table, "--format", "json")
    assert (rolled_back.code, json.loads(rolled_back.text)) == (0, {"table": table, "rolled_back": []})


def test_other_indexes_are_refused_with_the_reason(cli: Cli, tmp_path: pathlib.Path) -> None:
    table, file = str(tmp_path / "t"), tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": ["a"]}), file)
    new = ["create", table, "--schema", str(file), "--record-key", "id"]
    refused = cli(*new, "--index", "hbase")
    assert refused.code and "index 'hbase' cannot be written: its keys are in HBase" in refused.stderr
    assert not (tmp_path / "t").exists()
    assert cli(*new, "--buckets", "1").code == 0
    refused = cli("write", table, str(file), "--index", "hbase")
    assert refused.code and "its keys are in HBase, outside of the table" in refused.stderr
    refused = cli("write", table, str(file), "--index", "hash")
    assert refused.code and "got index='hash'" in refused.stderr


def test_json_lines_are_values_of_the_tables_columns(cli: Cli, tmp_path: pathlib.Path) -> None:
    table, file = str(tmp_path / "t"), tmp_path / "rows.jsonl"
    columns = [("id", pa.string()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("p", pa.decimal128(9, 2))]
    penstock.create_table(table, pa.schema([*columns, ("f", pa.float64())]), record_key="id", buckets=1)
    file.write_text('{"id": "a", "at": "2024-01-31T00:00:00Z", "day": "2024-01-31", "p": "1.25", "f": 1}\n')
    for _ in range(2):
        assert cli("write", table, str(file)).code == 0
    schema = penstock.read(table).schema
    assert [schema.field(name).type for name, _ in columns] == [kind for _, kind in columns]
    file.write_text('{"id": "b", "p": "text"}\n')
    refused = cli("write", table, str(file))
    assert refused.code and "rows.jsonl cannot be read" in refused.stderr


TIMES = ("timestamp.type=EPOCHMILLISECONDS", "output.dateformat=yyyy-MM-dd", "output.timezone=UTC")


def each(option: str, values: tuple[str, ...]) -> list[str]:
    return [text for value in values for text in (option, value)]


@pytest.mark.parametrize(
    ("generator", "partition_by", "partition"),
    [
        ("TIMESTAMP", ("ts",), "2023-11-14"),
        ("CUSTOM", ("city:SIMPLE", "ts:TIMESTAMP"), "a%2Fb/2023-11-14"),
    ],
)
def test_key_generators(
    cli: Cli, tmp_path: pathlib.Path, generator: str, partition_by: tuple[str, ...], partition: str
) -> None:
    table, file = str(tmp_path / "events"), tmp_path / "events.parquet"
    pq.write_table(pa.table({"id": ["a"], "city": ["a/b"], "ts": [1_700_000_000_000]}), file)
    columns = ["--schema", str(file), "--record-key", "id", *each("--partition-by", partition_by)]
    settings = ["--key-generator", generator, *each("--time-partition", TIMES), "--url-encode", "--name", "named"]
    assert cli("create", table, *columns, *settings, "--buckets", "1").code == 0
    written = json.loads(cli("write", table, str(file), "--format", "json").text)
    assert written["partitions"] == [partition]
    properties = (tmp_path / "events" / ".hoodie" / "hoodie.properties").read_text()
    assert "hoodie.table.name=named" in properties and "timebased.output.timezone=UTC" in properties


def without_times(cli: Cli, tmp_path: pathlib.Path) -> tuple[str, str]:
    """(table, file with a row): a TIMESTAMP table that does not record the form of its partitions."""
    table, file = tmp_path / "events", tmp_path / "events.parquet"
    pq.write_table(pa.table({"id": ["a"], "ts": [1_700_000_000_000]}), file)
    key = ["--schema", str(file), "--record-key", "id", "--partition-by", "ts", "--key-generator", "TIMESTAMP"]
    assert cli("create", str(table), *key, *each("--time-partition", TIMES), "--buckets", "1").code == 0
    properties = table / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "timebased" not in line]
    properties.write_text("\n".join([*lines, ""]))
    return str(table), str(file)


def test_write_gives_the_form_of_time_partitions(cli: Cli, tmp_path: pathlib.Path) -> None:
    table, file = without_times(cli, tmp_path)
    refused = cli("write", table, file)
    assert refused.code and "timestamp.type is '(none)'" in refused.stderr
    written = json.loads(cli("write", table, file, *each("--time-partition", TIMES), "--format", "json").text)
    assert written["partitions"] == ["2023-11-14"]
    again = penstock.write(table, pq.read_table(file), time_partitions=dict(text.split("=") for text in TIMES))
    assert (again.partitions, penstock.read(table).read_all().num_rows) == (("2023-11-14",), 1)


def test_time_partition_without_value_is_refused(cli: Cli, tmp_path: pathlib.Path) -> None:
    table, file = without_times(cli, tmp_path)
    refused = cli("write", table, file, "--time-partition", "timestamp.type")
    assert refused.code and "got 'timestamp.type', expected NAME=VALUE" in refused.stderr


REMOTE = ("s3://b/t", "S3A://b/t", "gs://b/t", "abfs://c@a.dfs.core.windows.net/t", "hdfs://host:9/t", "memory://t")


@pytest.mark.parametrize("uri", REMOTE)
@pytest.mark.parametrize("command", ["create", "write", "rollback", "savepoint", "restore"])
def test_remote_storage_is_refused_without_being_opened(
    cli: Cli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, uri: str, command: str
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("penstock.table.storage.local_writes.open_folder", opened.append)
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": ["a"]}), file)
    rest = {"create": ["--schema", str(file), "--record-key", "id"], "write": [str(file)]}.get(command, [])
    refused = cli(command, uri, *rest)
    assert refused.code
    assert f"writing to {uri.partition(':')[0].lower()}: is not supported: nothing was written" in refused.stderr
    assert "conditional put" in refused.stderr and "Write this table with Hudi" in refused.stderr
    assert not opened


def test_refusal_of_remote_storage_has_its_code_and_no_secret() -> None:
    for call in (
        lambda path: penstock.create_table(path, pa.schema([("id", pa.string())]), record_key="id", buckets=1),
        lambda path: penstock.write(path, pa.table({"id": ["a"]})),
        penstock.rollback,
        penstock.savepoint,
        penstock.restore,
    ):
        with pytest.raises(penstock.errors.UnsupportedFeature) as caught:
            call("s3://key:secret@bucket/table?secret_key=x")
        assert caught.value.code == "UNSUPPORTED_FEATURE"
        assert "secret" not in str(caught.value) and "s3://bucket/table" in str(caught.value)


def test_file_uris_and_links_are_local(tmp_path: pathlib.Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    rows = pa.table({"id": ["a"]})
    for number, place in enumerate(
        ((tmp_path / "real").as_uri(), "FILE://" + str(tmp_path / "real"), str(tmp_path / "link"))
    ):
        penstock.create_table(f"{place}/{number}", rows.schema, record_key="id", buckets=1)
        penstock.write(f"{place}/{number}", rows)
        assert penstock.rollback(f"{place}/{number}") == ()
        assert penstock.read(str(tmp_path / "real" / str(number))).read_all()["id"].to_pylist() == ["a"]


def test_global_index_keeps_or_moves_keys(cli: Cli, tmp_path: pathlib.Path) -> None:
    table, file = str(tmp_path / "customers"), tmp_path / "customers.parquet"

    def write(city: str, *options: str) -> list[str]:
        pq.write_table(pa.table({"id": ["a"], "city": [city]}), file)
        if not (tmp_path / "customers").exists():
            columns = ("--schema", str(file), "--record-key", "id", "--partition-by", "city")
            assert cli("create", table, *columns, "--index", "global_bloom").code == 0
        assert cli("write", table, str(file), *options).code == 0
        paths: list[str] = penstock.read(table).read_all()["_hoodie_partition_path"].to_pylist()
        return paths

    assert write("oslo") == ["oslo"]
    assert write("riga", "--keep-partition-path") == ["oslo"]
    assert write("riga") == ["riga"]
