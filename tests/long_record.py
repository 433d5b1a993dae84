"""What long tests add to the record of `make long`."""

from __future__ import annotations

import os
import pathlib


def add_to_record(text: str) -> None:
    """Adds lines to the record of the run, if there is one (`tools/run_long.py`)."""
    if path := os.environ.get("PENSTOCK_NOTES"):
        with pathlib.Path(path).open("a") as notes:
            notes.write(f"{text}\n")
