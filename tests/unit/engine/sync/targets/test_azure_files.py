"""A target of Parquet files on Azure: opened as a table is, with errors that show no signature."""

from __future__ import annotations

import subprocess
import sys
import traceback

import pytest

from penstock.engine.sync.targets.parquet import ParquetTarget
from penstock.engine.sync.targets.parquet_files import StoredFiles
from penstock.proto.errors import ConfigurationError, TargetUnavailable
from penstock.table.storage.filesystem import open_folder

PLACE = "abfs://account@127.0.0.1:9/lake/t"


def test_account_key_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"{PLACE}?enable_tls=false"
    for variable in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigurationError, match="without TLS"):
        StoredFiles(uri)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "cGVuc3RvY2sgdGVzdHM6IG5vIHNlY3JldCBvZiBhbnlib2R5")
    assert (StoredFiles(uri)._files, "lake/t") == open_folder(uri)


def test_a_process_without_a_token_goes_on() -> None:
    """In a separate process, which pyarrow ends when a file is opened and no token can be had."""
    program = "import sys; from penstock.engine.sync.targets.parquet import *; ParquetTarget(sys.argv[1]).stored('t')"
    command = [sys.executable, "-P", "-c", program, f"{PLACE}?credential_kind=environment"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1 and "Error: target parquet://abfs:" in ended.stderr


def test_errors_show_no_signature() -> None:
    target = ParquetTarget(PLACE)
    with pytest.raises(TargetUnavailable, match="failed for") as caught, target._errors("t"):
        raise OSError("GetProperties failed for 'https://account.h.net/lake/t?se=1&sig=secret&sp=r'")
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(TargetUnavailable) as caught, target._errors("t"):
        raise OSError("another error")
    assert "OSError: another error" in "".join(traceback.format_exception(caught.value))
