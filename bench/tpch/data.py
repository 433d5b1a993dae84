"""The tables of TPC-H as `tpchgen-cli` generates them, and the 22 queries."""

from __future__ import annotations

import pathlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

TOOL: Final = "tpchgen-cli"
QUERIES: Final = pathlib.Path(__file__).with_name("queries.sql")
_HEAD: Final = re.compile(r"^-- (Q\d+): .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TpchTable:
    """A table of TPC-H."""

    name: str
    """Its name."""
    key: tuple[str, ...]
    """The columns of its primary key."""


TABLES: Final = (
    TpchTable("region", ("r_regionkey",)),
    TpchTable("nation", ("n_nationkey",)),
    TpchTable("supplier", ("s_suppkey",)),
    TpchTable("customer", ("c_custkey",)),
    TpchTable("part", ("p_partkey",)),
    TpchTable("partsupp", ("ps_partkey", "ps_suppkey")),
    TpchTable("orders", ("o_orderkey",)),
    TpchTable("lineitem", ("l_orderkey", "l_linenumber")),
)


def generate(folder: pathlib.Path, scale: float, tables: str = "") -> None:
    """Writes the tables as `<folder>/<table>.parquet`. tables: names with commas between; '' for all."""
    chosen = ["--tables", tables] if tables else []
    command = [_tool(), "parquet", "--scale-factor", f"{scale}", "--output-dir", str(folder), *chosen]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{TOOL} ended with code {result.returncode}: {result.stderr[-2000:]}")


def _tool() -> str:
    """The installed command, which need not be on the PATH."""
    try:
        installed = files(TOOL) or ()
    except PackageNotFoundError:
        raise RuntimeError(f"{TOOL} is not installed: it is part of Penstock's extras bench and test") from None
    return str(next(file.locate() for file in installed if file.stem == TOOL))


def read(file: pathlib.Path) -> pa.Table:
    """The rows of a generated file. It has views of texts, which Arrow cannot filter."""
    rows = pq.read_table(file)
    types = [pa.string() if pa.types.is_string_view(field.type) else field.type for field in rows.schema]
    return rows.cast(pa.schema([pa.field(name, kind) for name, kind in zip(rows.schema.names, types, strict=True)]))


def queries(scale: float) -> Iterator[tuple[str, str]]:
    """(name, Spark SQL) of the 22 queries over views with the names of the tables."""
    _, *parts = _HEAD.split(QUERIES.read_text())
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        yield name, text.replace(":fraction", f"{0.0001 / scale:.10f}").strip()
