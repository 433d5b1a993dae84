"""Golden tables in Azure: rows, ranges and changes are those of the same tables on a local disk."""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pyarrow.fs as pafs
import pytest

import penstock
from penstock.proto.errors import ConfigurationError, PenstockError, StorageDenied
from tests.azure.container import ACCOUNT, CONTAINER, KEY, copy_in, direct, uri
from tests.loopback_ports import free_port
from tests.store_answers import CASES, check_equal_answers

pytestmark = [pytest.mark.ops, pytest.mark.golden]

SMALL = "A_cow_mixed_v9_h120"


def signature(end: str) -> str:
    """A shared access signature of the account that allows to read and list blobs. Source: Azure Storage, “Create an
    account SAS”, version 2020-12-06."""
    values = {"sv": "2020-12-06", "ss": "b", "srt": "sco", "sp": "rl", "se": end, "spr": "https,http"}
    fields = [ACCOUNT, values["sp"], values["ss"], values["srt"], "", end, "", values["spr"], values["sv"], "", ""]
    digest = hmac.new(base64.b64decode(KEY), "\n".join(fields).encode(), hashlib.sha256).digest()
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in values.items()) + (
        f"&sig={quote(base64.b64encode(digest).decode(), safe='')}"
    )


@pytest.mark.parametrize("case", CASES)
def test_table_in_the_store_reads_as_on_the_disk(
    upload: Callable[[str], str], key: str, golden: Any, case: str
) -> None:
    check_equal_answers(upload(case), str(golden.table(case)), golden.expected(case, "snapshot").num_rows)


def test_a_shared_access_signature_opens_the_table(
    upload: Callable[[str], str], golden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upload(SMALL)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", signature("2999-01-01T00:00:00Z"))
    assert penstock.read(table).read_all().num_rows == golden.expected(SMALL, "snapshot").num_rows
    ended = signature("2001-01-01T00:00:00Z")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", ended)
    with pytest.raises(StorageDenied, match="storage refuses") as caught:
        penstock.read(table)
    shown = "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
    assert "sp=rl" in shown and ended.partition("&sig=")[2] not in shown


def test_another_key_is_denied(upload: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"another key of 32 bytes, for this test").decode()
    )
    with pytest.raises(StorageDenied, match=r"AuthorizationFailure|AuthenticationFailed"):
        penstock.read(upload(SMALL))


def test_a_key_of_another_account_is_not_sent(upload: Callable[[str], str], key: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "other")
    with pytest.raises(ConfigurationError, match="without TLS"):
        penstock.read(upload(SMALL))


def test_a_missing_file_is_an_error_that_names_it(store: str, key: str, golden: Any) -> None:
    """Negative control: the store's files are read, not those of the disk."""
    copy_in(golden.table(SMALL), store, "damaged")
    filesystem = direct(store)
    found = filesystem.get_file_info(pafs.FileSelector(f"{CONTAINER}/damaged", recursive=True))
    base = [info.path for info in found if info.path.endswith(".parquet") and "/.hoodie/" not in info.path]
    for path in base:
        filesystem.delete_file(path)
    with pytest.raises(PenstockError, match=r"\.parquet"):
        penstock.read(uri(store, "damaged")).read_all()


@pytest.mark.parametrize("first", [True, False], ids=["file is looked up first", "negative control"])
def test_a_process_without_credentials_goes_on(first: bool) -> None:
    """In a separate process, which pyarrow ends when a file is opened and no token can be had."""
    script = """
        import sys
        from penstock.proto.errors import StorageError
        from penstock.table.storage.filesystem import ArrowStorage, open_storage
        storage = open_storage(sys.argv[1])
        storage._queries_first = sys.argv[2] == "True"
        try:
            storage.read_bytes("f", 10)
        except StorageError as error:
            print("an error:", error)
    """
    program = textwrap.dedent(script)
    path = f"abfs://lab@127.0.0.1:{free_port()}/lake/t?credential_kind=environment"
    ended = subprocess.run([sys.executable, "-P", "-c", program, path, str(first)], capture_output=True, text=True)
    if first:
        assert ended.returncode == 0 and "an error: storage failed on f" in ended.stdout
    else:
        assert ended.returncode < 0 and "terminate called" in ended.stderr
