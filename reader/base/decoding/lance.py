"""Decodes columns of Lance files in child processes.

The library of Lance panics at damaged columns inside of a C callback, which ends its process. The library also prints a
warning at every later fork. So it is loaded in children only, which start in about a second.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

import pyarrow as pa

from penstock.reader.base.decoding.child import Library
from penstock.reader.base.decoding.processes import DecodingProcesses
from penstock.table.lance import NEEDS_EXTRA

PROCESSES: Final = DecodingProcesses(
    Library(
        name="Lance",
        program="""
from lance.file import LanceFileReader

def decode(file, path, columns, rows, batch_rows):
    lance = LanceFileReader(path, columns=columns)
    if not rows:
        return lance.metadata().schema, ()
    batches = lance.read_range(0, rows, batch_size=batch_rows, batch_readahead=1).to_batches()
    return batches.schema, batches
""",
        missing=r"ModuleNotFoundError: No module named 'lance(\.file)?'",
        needs=NEEDS_EXTRA,
    )
)


def read_lance(
    path: str, columns: Sequence[str] | None, rows: int, batch_rows: int
) -> Generator[pa.RecordBatch, None, None]:
    """The first `rows` rows of the file, in batches. Errors as `DecodingProcesses.answer`. A read that is not taken to
    its end ends its child."""
    with PROCESSES.answer((path, columns, rows, batch_rows)) as answer:
        yield from answer.batches


def lance_schema(path: str) -> pa.Schema:
    """The columns of the file. Errors as `read_lance`."""
    with PROCESSES.answer((path, None, 0, 1)) as answer:
        list(answer.batches)
        return answer.schema
