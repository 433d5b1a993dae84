"""Golden tables in Google Cloud Storage: rows, ranges and changes are those of the same tables on a local disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock.proto.errors import PenstockError
from tests.gcs.bucket import uri
from tests.store_answers import CASES, check_equal_answers

pytestmark = [pytest.mark.ops, pytest.mark.golden]


@pytest.mark.parametrize("case", CASES)
def test_table_in_the_store_reads_as_on_the_disk(upload: Callable[[str], str], golden: Any, case: str) -> None:
    check_equal_answers(upload(case), str(golden.table(case)), golden.expected(case, "snapshot").num_rows)


def test_the_alias_gcs_opens_the_same_table(store: str, upload: Callable[[str], str], golden: Any) -> None:
    case = "A_cow_mixed_v9_h120"
    upload(case)
    assert penstock.read(uri(store, case, "gcs")).read_all().num_rows == golden.expected(case, "snapshot").num_rows


def test_a_missing_file_is_an_error_that_names_it(store: str, golden: Any) -> None:
    """Negative control: the store's files are read, not those of the disk."""
    import pyarrow.fs as pafs

    from tests.gcs.bucket import copy_in

    case, damaged = "A_cow_mixed_v9_h120", uri(store, "damaged")
    copy_in(golden.table(case), damaged)
    filesystem, root = pafs.FileSystem.from_uri(damaged)
    found = filesystem.get_file_info(pafs.FileSelector(root, recursive=True))
    base = [info.path for info in found if info.path.endswith(".parquet") and "/.hoodie/" not in info.path]
    for path in base:
        filesystem.delete_file(path)
    with pytest.raises(PenstockError, match=r"\.parquet"):
        penstock.read(damaged).read_all()
