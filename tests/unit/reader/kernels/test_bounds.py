"""The suites run kernels with numba's bounds checks, and those checks see a kernel that leaves its arrays.

`make test` and `make check` set NUMBA_BOUNDSCHECK for the suites without a JVM; fuzz batches set it themselves.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from penstock.reader.kernels import deletes
from tools import run_suites

ROOT = pathlib.Path(__file__).parents[4]
GUARD = " or row >= len(kinds)"

TINY = """
import numpy as np
from penstock.reader.kernels.compilation import compiled_lean, inlined
from penstock.reader.kernels.json_text import _word as copy_word
from penstock.reader.kernels.winners import _word as load_word

@inlined
def put(target, at):
    target[np.uint64(at)] = 1

@compiled_lean
def write(target, at):
    put(target, at)

@compiled_lean
def load(data, at):
    return load_word(data, np.int64(at))

@compiled_lean
def copy(out, at, source, place):
    copy_word(out, np.int64(at), source, np.int64(place))

def refused(kernel, *arguments):
    try:
        kernel(*arguments)
    except IndexError:
        return 1
    return 0

eight = np.zeros(8, np.uint8)
write(eight, 7), load(eight, 0), copy(eight, 0, eight.copy(), 0)
print(refused(write, eight, 8), refused(load, eight, 1), refused(load, eight, -1),
      refused(copy, eight, 1, eight.copy(), 0), refused(copy, eight, 0, eight.copy(), 1))
"""

UNGUARDED = f"""
import importlib.util, struct, sys, types
from penstock.table.log.blocks import BlockPlace
from penstock.table.log.deletes import decode_deletes
source = open({deletes.__file__!r}).read()
assert source.count({GUARD!r}) == 1
module = types.ModuleType("unguarded")
exec(compile(source.replace({GUARD!r}, ""), "unguarded.py", "exec"), module.__dict__)
body = bytes([130, 4]) + bytes([2, 0, 0, 0]) * 256 + bytes([2])  # announces 257 records, the last of one byte
try:
    decode_deletes(struct.pack(">ii", 3, len(body)) + body, BlockPlace("t", "f", 0, "1"), module.decode_delete_list)
except IndexError:
    print("caught")
"""


def checked(program: str, folder: pathlib.Path) -> str:
    """What the program prints in a process of its own whose kernels check their bounds."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_index_outside_of_an_array_is_seen_in_pieces_and_intrinsics_too(tmp_path: pathlib.Path) -> None:
    assert checked(TINY, tmp_path) == "1 1 1 1 1"


@pytest.mark.thorough
def test_delete_kernel_without_its_guard_is_caught(tmp_path: pathlib.Path) -> None:
    assert checked(UNGUARDED, tmp_path) == "caught"


def test_suites_without_a_jvm_run_checked_kernels() -> None:
    """`make check` by the Makefile's own recipe, `make test` and `make test-all` by `tools/run_suites.py`."""
    makefile = (ROOT / "Makefile").read_text()
    recipes = re.findall(r"^\t@(.*\$\(PARALLEL\).*)$", makefile, re.MULTILINE)
    assert len(recipes) == 1
    assert all(recipe.startswith("$(CHECKED)") for recipe in recipes)
    assert "CHECKED  := NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=" in makefile
    suites = run_suites.environments({"NUMBA_CACHE_DIR": "cache"})
    assert suites.without_jvm["NUMBA_BOUNDSCHECK"] == "1" and suites.without_jvm["NUMBA_CACHE_DIR"] == "cache-checked"
    assert "NUMBA_BOUNDSCHECK" not in suites.with_jvm and suites.with_jvm["NUMBA_CACHE_DIR"] == "cache"
