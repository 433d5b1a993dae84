"""Writes the data of a command to stdout or a file, as text table, JSON lines, Parquet or Arrow.

A file appears complete or not at all. stdout receives data only.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from penstock.engine.cli.output.terminal_text import printable, width_of
from penstock.proto.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED_ROWS: Final = 512
"""The column widths of a text table are those of its first rows. Longer values in later rows are written in full."""

ROW_GROUP_ROWS: Final = 1 << 18
ROW_GROUP_BYTES: Final = 128 << 20
"""A Parquet row group ends at the first of these limits. The rows of one row group are in memory."""


class RowFormat(StrEnum):
    """Formats of rows."""

    TABLE = "table"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


class ReportFormat(StrEnum):
    """Formats of a report."""

    TABLE = "table"
    JSON = "json"


def check_output(output: str | None) -> None:
    """Raises ConfigurationError if no file can be created at the path of `-o`. Writes nothing."""
    if output is None or output == "-":
        return
    if not output:
        raise ConfigurationError("-o: got an empty name, expected a file, or - for stdout")
    try:
        path = Path(os.path.realpath(output))
        if path.is_dir() or output.endswith("/"):
            raise ConfigurationError(f"-o {output}: expected a file, but that is a folder: name a file in it")
        if not path.parent.is_dir():
            raise ConfigurationError(f"-o {output}: there is no folder {path.parent}: make it first")
        path.exists()
    except OSError as error:
        raise ConfigurationError(f"-o {output}: {error.strerror}: give another name") from error


def row_format(requested: RowFormat | None, output: str | None) -> RowFormat:
    """The requested format, else the one of the output file's suffix, else a table on stdout.

    ConfigurationError: the suffix names no format, or binary data would go to a terminal.
    """
    to_stdout = output in (None, "-")
    if requested is None and not to_stdout:
        suffix = Path(str(output)).suffix.lower().removeprefix(".")
        if suffix not in set(RowFormat) - {RowFormat.TABLE}:
            raise ConfigurationError(
                f"output file {output}: its suffix names no format, expected .parquet, .arrow or .jsonl; or give "
                "--format"
            )
        return RowFormat(suffix)
    form = requested or RowFormat.TABLE
    if to_stdout and form in (RowFormat.PARQUET, RowFormat.ARROW) and sys.stdout.isatty():
        raise ConfigurationError(f"--format {form.value} writes binary data: give -o FILE, or send stdout elsewhere")
    return form


@contextmanager
def destination(output: str | None) -> Iterator[IO[bytes]]:
    """Opens stdout or the file. A regular file appears under its name only when the block ends without an error."""
    if output is None or output == "-":
        with _named("stdout"):
            sys.stdout.flush()
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    path = Path(os.path.realpath(output))
    if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
        with _named(output), path.open("wb") as stream:
            yield stream
        return
    partial = path.with_name(f".{path.name[:50]}.{secrets.token_hex(6)}.partial")
    try:
        with _named(output):
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _named(output: str) -> Iterator[None]:
    """Errors of the system name the requested file, not the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), output) from error


def write_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: RowFormat, output: str | None) -> None:
    """Streams the rows to stdout or the file. Memory use does not depend on their number.

    Arrow: the IPC file format in a file, the IPC stream format on stdout.
    """
    with destination(output) as stream:
        match form:
            case RowFormat.TABLE:
                _write_table(schema, batches, stream)
            case RowFormat.JSONL:
                for batch in batches:
                    write_json_lines(batch, stream)
            case RowFormat.PARQUET:
                _write_parquet(schema, batches, stream)
            case RowFormat.ARROW:
                _write_arrow(schema, batches, stream, seekable=output not in (None, "-") and stream.seekable())


def write_json(value: Mapping[str, object] | Sequence[object]) -> None:
    """Writes one JSON document to stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Writes a small table to stdout, with every cell in full."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = _widths(names, cells)
    sys.stdout.write(_heading(names, widths, ()))
    sys.stdout.writelines(_line(row, widths, ()) for row in cells)


def write_json_lines(batch: pa.RecordBatch, stream: IO[bytes]) -> None:
    """Writes the rows of the batch, one JSON object per line."""
    from penstock.engine.cli.output.cells import json_values

    names = batch.schema.names
    for row in zip(*map(json_values, batch.columns), strict=True):
        text = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False)
        stream.write(text.encode() + b"\n")


def _write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], stream: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write_row_group(pending: list[pa.RecordBatch]) -> None:
        if pending:
            writer.write_table(pa.Table.from_batches(pending, schema), row_group_size=ROW_GROUP_ROWS)

    with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        pending: list[pa.RecordBatch] = []
        for batch in batches:
            pending.append(batch)
            if sum(b.num_rows for b in pending) >= ROW_GROUP_ROWS or sum(b.nbytes for b in pending) >= ROW_GROUP_BYTES:
                write_row_group(pending)
                pending = []
        write_row_group(pending)


def _write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], stream: IO[bytes], *, seekable: bool) -> None:
    import pyarrow as pa

    opened = pa.ipc.new_file(stream, schema) if seekable else pa.ipc.new_stream(stream, schema)
    with opened as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], stream: IO[bytes]) -> None:
    """Pads columns to the widths of the first rows. No value is cut: a later long value shifts its own line."""
    from pyarrow import types

    from penstock.engine.cli.output.cells import text_values

    names = [printable(name) for name in schema.names]
    numeric = {
        i
        for i, field in enumerate(schema)
        if types.is_integer(field.type) or types.is_floating(field.type) or types.is_decimal(field.type)
    }
    widths: list[int] = []
    pending_rows: list[list[str]] = []

    def flush() -> None:
        nonlocal widths
        if not widths:
            widths = _widths(names, pending_rows)
            stream.write(_heading(names, widths, numeric).encode())
        for row in pending_rows:
            stream.write(_line(row, widths, numeric).encode())
        pending_rows.clear()

    for batch in batches:
        for row in zip(*map(text_values, batch.columns), strict=True):
            pending_rows.append(list(row))
            if widths or len(pending_rows) >= SAMPLED_ROWS:
                flush()
    flush()


def _widths(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max([width_of(name), *(width_of(row[i]) for row in rows)]) for i, name in enumerate(names)]


def _heading(names: Sequence[str], widths: Sequence[int], right: Iterable[int]) -> str:
    return _line(names, widths, right) + _line(["-" * width for width in widths], widths, ())


def _line(cells: Sequence[str], widths: Sequence[int], right: Iterable[int]) -> str:
    aligned = set(right)
    padded = []
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        blanks = " " * max(0, width - width_of(cell))
        padded.append(blanks + cell if i in aligned else cell + blanks)
    return "  ".join(padded).rstrip() + "\n"
