"""Command lines of `penstock tail` of a group in memory, the rows that they return, and the files that they write."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pyarrow.parquet as pq

from penstock.engine.cli.output.tail_scope import SCOPE_FILE

SERVER = ("--server", "127.0.0.1:7070")
NAMED = (*SERVER, "--group", "g", "--reader-id", "r")


def ids(stdout: bytes) -> list[int]:
    """The ids of JSON lines, in order."""
    return [json.loads(line)["id"] for line in stdout.splitlines()]


ROWS = [*range(25), *range(10)]


def refs(service: Any) -> Any:
    """The splits of the group's rounds, in order."""
    from penstock.proto.model.groups import SplitRef

    return [SplitRef(plan, index) for plan, splits in service.rounds.items() for index in range(len(splits))]


def names(folder: pathlib.Path) -> list[str]:
    """Includes hidden files except the scope file."""
    return sorted(path.name for path in folder.iterdir() if path.name != SCOPE_FILE)


def rows_of(folder: pathlib.Path) -> dict[str, list[int]]:
    """Ids by file, including hidden files."""
    rows = {}
    for path in (folder / name for name in names(folder)):
        if path.suffix == ".parquet":
            rows[path.name] = pq.read_table(path).column("id").to_pylist()
        else:
            rows[path.name] = ids(path.read_bytes())
    return rows
