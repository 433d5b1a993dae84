"""A server with the interface of Google Cloud Storage, and golden tables in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of an emulator that keeps its objects in memory, with one empty bucket."""
    from tests.faults.served import end, until
    from tests.gcs.bucket import BUCKET
    from tests.loopback_ports import free_port
    from tests.s3.bucket import answers

    log, port = tmp_path_factory.mktemp("gcs") / "log", free_port()
    address = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--host=127.0.0.1", f"--port={port}"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--in-memory", f"--default-bucket={BUCKET}"], stdout=output, stderr=output, text=True
        )
    try:
        until(lambda: answers(address), f"the store is up; its log: {log}")
        yield address
    finally:
        end(process)


@pytest.fixture(scope="session")
def upload(store: str, golden: Any) -> Callable[[str], str]:
    """Uploads a golden table to the store, once; its URI."""
    from tests.gcs.bucket import copy_in, uri

    def put(name: str) -> str:
        copy_in(golden.table(name), uri(store, name))
        return uri(store, name)

    return cache(put)
