"""`penstock doctor --warm` compiles every kernel of the package, for the arrays with which reads and writes call it."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, json, sys
import pyarrow as pa
import penstock
from penstock.engine.doctor import warm
from penstock.engine.doctor.machine import kernels

left_out, path = sys.argv[1:]
warm._USES = tuple(use for use in warm._USES if use[0] != left_out)
results = list(warm.warm(iter(range(100)).__next__))
assert [result.seconds for result in results] == [1] * len(warm._USES)
missing = [kernel.__name__ for kernel in kernels() if not kernel.signatures]
if not left_out:  # a write with an index, reads of its rows and changes
    schema = pa.schema([("id", pa.string()), ("seq", pa.int64())])
    penstock.create_table(path, schema, record_key="id", ordering="seq", buckets=2, table_type="merge_on_read")
    keys = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(10_000)]
    for seq in (1, 2):
        penstock.write(path, pa.table({"id": keys, "seq": [seq] * len(keys)}, schema))
    assert penstock.read(path).read_all().num_rows == 10_000
    assert penstock.read(path, query="cdc", after="earliest", cdc_format="hudi").read_all().num_rows == 20_000
again = [kernel.__name__ for kernel in kernels() if len(kernel.signatures) > 1]
print(json.dumps([missing, again]))
"""


def names(left_out: str, path: pathlib.Path) -> list[list[str]]:
    """The kernels that were not compiled, and those that were compiled again by reads and writes."""
    command = [sys.executable, "-P", "-c", PROGRAM, left_out, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: list[list[str]] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        ("", []),
        ("JSON records of topics", ["scan_records", "whole_numbers", "booleans", "reals", "texts", "days", "stamps"]),
        ("bucket numbers", ["hash_keys"]),
    ],
)
def test_every_kernel_is_compiled_once(tmp_path: pathlib.Path, left_out: str, missing: list[str]) -> None:
    """The second and third cases are the controls: a kernel that no use calls is found."""
    assert names(left_out, tmp_path / "t") == [missing, []]
