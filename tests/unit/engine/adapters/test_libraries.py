"""A public module of an engine imports the engine at the first use of a function, or says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock

LIBRARIES = {"daft": "read", "duckdb": "relation", "polars": "scan", "ray": "read"}

WITHOUT = """
import sys
sys.modules[{library!r}] = None  # as if it were not installed
import penstock
try:
    penstock.{library}.{function}
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_library_is_named_with_its_extra(library: str) -> None:
    code = WITHOUT.format(library=library, function=LIBRARIES[library])
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"penstock.{library} needs {library}: pip install 'penstock[{library}]'\n"


@pytest.mark.parametrize("library", LIBRARIES)
def test_name_that_is_not_public_does_not_exist(library: str) -> None:
    with pytest.raises(AttributeError, match=f"'penstock.{library}' has no attribute 'TableSource'"):
        _ = getattr(penstock, library).TableSource
