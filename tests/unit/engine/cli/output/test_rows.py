"""Output of rows: formats, and files that appear completely or not at all."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import pathlib
import stat
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.cli.output import rows as output
from penstock.engine.cli.output.rows import RowFormat, destination, row_format, write_rows, write_text_table
from penstock.proto.errors import ConfigurationError, CorruptBlock

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(12, 3)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("tags", pa.map_(pa.string(), pa.list_(pa.int32()))),
    ]
)
MOMENT = dt.datetime(2026, 1, 31, 23, 59, 59, 123456, tzinfo=dt.UTC)


def batch(*ids: int) -> pa.RecordBatch:
    rows = [
        {"id": i, "name": f"n{i}", "price": decimal.Decimal("1.500"), "at": MOMENT, "local": None, "tags": [("a", [i])]}
        for i in ids
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize(
    ("option", "file", "form"),
    [
        (None, None, RowFormat.TABLE),
        (None, "-", RowFormat.TABLE),
        (None, "x.parquet", RowFormat.PARQUET),
        (None, "x.ARROW", RowFormat.ARROW),
        (None, "a.b/x.jsonl", RowFormat.JSONL),
        (RowFormat.JSONL, "x.parquet", RowFormat.JSONL),
        (RowFormat.TABLE, "x", RowFormat.TABLE),
        (RowFormat.PARQUET, None, RowFormat.PARQUET),
    ],
)
def test_format(option: RowFormat | None, file: str | None, form: RowFormat) -> None:
    assert row_format(option, file) is form


@pytest.mark.parametrize("file", ["x", "x.csv", "x.table", "x.parquet.gz"])
def test_unknown_suffix_is_refused(file: str) -> None:
    with pytest.raises(ConfigurationError, match="names no format"):
        row_format(None, file)


def test_no_binary_data_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for form in (RowFormat.PARQUET, RowFormat.ARROW):
        with pytest.raises(ConfigurationError, match="-o FILE"):
            row_format(form, None)
    assert row_format(RowFormat.JSONL, None) is RowFormat.JSONL


@pytest.mark.parametrize("form", [RowFormat.PARQUET, RowFormat.ARROW])
@pytest.mark.parametrize("batches", [[], [batch(1, 2), batch(3)]])
def test_binary_files_hold_the_same_types_and_values(
    form: RowFormat, batches: list[pa.RecordBatch], tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "x"
    write_rows(SCHEMA, iter(batches), form, str(file))
    actual = pq.read_table(file) if form is RowFormat.PARQUET else pa.ipc.open_file(file).read_all()
    assert actual.equals(pa.Table.from_batches(batches, SCHEMA))


def test_parquet_row_groups_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(output, "ROW_GROUP_ROWS", 4)
    file = tmp_path / "x.parquet"
    write_rows(SCHEMA, (batch(i, i + 1, i + 2) for i in range(0, 12, 3)), RowFormat.PARQUET, str(file))
    metadata = pq.read_metadata(file)
    assert metadata.num_rows == 12
    assert max(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)) <= 4


def test_arrow_on_stdout_is_a_stream(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write_rows(SCHEMA, [batch(1)], RowFormat.ARROW, None)
    assert pa.ipc.open_stream(capsysbinary.readouterr().out).read_all().num_rows == 1


def test_json_lines(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write_rows(SCHEMA, [batch(1), batch(2)], RowFormat.JSONL, "-")
    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2]
    assert json.loads(lines[0]) == {
        "id": 1,
        "name": "n1",
        "price": "1.500",
        "at": "2026-01-31T23:59:59.123456Z",
        "local": None,
        "tags": {"a": [1]},
    }


def test_table(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    write_rows(schema, [pa.record_batch([[1, 10], ["日本", None]], schema=schema)], RowFormat.TABLE, None)
    assert capsysbinary.readouterr().out.decode().splitlines() == ["id  name", "--  ----", " 1  日本", "10  null"]


def test_table_streams_and_cuts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(output, "SAMPLED_ROWS", 2)
    schema = pa.schema([("name", pa.string())])
    lines: list[str] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for values in (["a", "b"], ["c" * 50]):
            yield pa.record_batch([values], schema=schema)
            lines.append(capsysbinary.readouterr().out.decode())

    write_rows(schema, batches(), RowFormat.TABLE, None)
    assert lines == ["name\n----\na\nb\n", "c" * 50 + "\n"]


def test_table_without_rows_still_names_its_columns(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write_rows(SCHEMA, [], RowFormat.TABLE, None)
    assert capsysbinary.readouterr().out.decode().splitlines()[0].split() == SCHEMA.names


def test_text_tables_escape_terminal_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    write_text_table(("a", "b"), [("\x1b[2J", "x"), ("y", "")])
    assert capsys.readouterr().out.splitlines() == ["a        b", "-------  -", "\\x1b[2J  x", "y"]


class TestFiles:
    """A file is replaced completely or stays unchanged."""

    def test_failed_read_leaves_nothing(self, tmp_path: pathlib.Path) -> None:
        def failing() -> Iterator[pa.RecordBatch]:
            yield batch(1)
            raise CorruptBlock("damaged")

        for form in RowFormat:
            with pytest.raises(CorruptBlock):
                write_rows(SCHEMA, failing(), form, str(tmp_path / "x"))
        assert list(tmp_path.iterdir()) == []

    def test_failed_read_keeps_the_old_file(self, tmp_path: pathlib.Path) -> None:
        file = tmp_path / "x"
        file.write_bytes(b"old")
        with pytest.raises(CorruptBlock), destination(str(file)) as stream:
            stream.write(b"new")
            raise CorruptBlock("damaged")
        assert file.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [file]

    def test_output_file_appears_when_it_is_complete(self, tmp_path: pathlib.Path) -> None:
        file = tmp_path / "x"
        with destination(str(file)) as stream:
            stream.write(b"new")
            stream.flush()
            assert not file.exists()
        assert file.read_bytes() == b"new"
        mask = os.umask(0)
        os.umask(mask)
        assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask

    def test_links_are_followed(self, tmp_path: pathlib.Path) -> None:
        real, link = tmp_path / "real", tmp_path / "link"
        real.write_bytes(b"old")
        link.symlink_to(real)
        with destination(str(link)) as stream:
            stream.write(b"new")
        assert link.is_symlink()
        assert real.read_bytes() == b"new"

    def test_devices_are_not_replaced(self) -> None:
        with destination(os.devnull) as stream:
            stream.write(b"x")
        assert not pathlib.Path(os.devnull).is_file()

    def test_missing_folder_is_an_error(self, tmp_path: pathlib.Path) -> None:
        with pytest.raises(FileNotFoundError, match="nowhere"), destination(str(tmp_path / "nowhere" / "x")):
            pass
