"""A server with the interface of Azure's blobs, and golden tables in it."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

PROGRAM = pathlib.Path(".cache", "ops", "azurite", "node_modules", "azurite", "dist", "src", "blob", "main.js")


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of Azurite, which keeps its objects in memory, with one account and one empty container."""
    from tests.azure.container import ACCOUNT, CONTAINER, KEY, direct
    from tests.faults.served import end, until
    from tests.loopback_ports import free_port
    from tests.s3.bucket import answers

    folder, port = tmp_path_factory.mktemp("azure"), free_port()
    address, log = f"127.0.0.1:{port}", folder / "log"
    command = ["node", str(PROGRAM.resolve()), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    accounts = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"],
            stdout=output, stderr=output, text=True, cwd=folder, env=accounts,
        )  # fmt: skip
    try:
        until(lambda: answers(address), f"the store is up; its log: {log}")
        direct(address).create_dir(CONTAINER)
        yield address
    finally:
        end(process)


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment has no settings of Azure."""
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The account's key, in the environment of this process."""
    from tests.azure.container import KEY

    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    return KEY


@pytest.fixture(scope="session")
def upload(store: str, golden: Any) -> Callable[[str], str]:
    """Uploads a golden table to the store, once; its URI."""
    from tests.azure.container import copy_in, uri

    def put(name: str) -> str:
        copy_in(golden.table(name), store, name)
        return uri(store, name)

    return cache(put)
