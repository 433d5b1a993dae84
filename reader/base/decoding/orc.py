"""Decodes columns of ORC files in child processes.

The library of ORC allocates memory for any length that a file states, and ends its process if there is too little.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

import pyarrow as pa

from penstock.reader.base.decoding.child import Library
from penstock.reader.base.decoding.processes import DecodingProcesses

PROCESSES: Final = DecodingProcesses(
    Library(
        name="ORC",
        program="""
import itertools
import pyarrow
from pyarrow.dataset import OrcFileFormat

def decode(file, columns, rows, most):
    fragment = OrcFileFormat().make_fragment(pyarrow.PythonFile(file, mode="r"))
    options = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
    scanner = fragment.scanner(columns=columns, batch_size=rows, **options)
    return scanner.projected_schema, itertools.islice(scanner.to_batches(), most)
""",
    )
)


def read_orc(
    source: pa.NativeFile, columns: Sequence[str], rows: int, most: int | None = None
) -> Generator[pa.RecordBatch, None, None]:
    """These columns of an open ORC file, in batches of at most `rows` rows; at most `most` batches.

    Errors as `DecodingProcesses.answer`. A read that is not taken to its end ends its child.
    """
    with PROCESSES.answer((list(columns), rows, most), source) as answer:
        yield from answer.batches
