"""A real S3-compatible store, golden tables in it, and a proxy before it that counts requests and injects faults."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a store: versitygw if it is built, otherwise moto's server."""
    from tests.faults.served import end, until
    from tests.loopback_ports import free_port
    from tests.ops.places import BIN, missing
    from tests.s3.bucket import BUCKET, SECRET, USER, answers, direct

    folder, port = tmp_path_factory.mktemp("store"), free_port()
    address = f"127.0.0.1:{port}"
    if (BIN / "versitygw").exists():
        (folder / "objects").mkdir()
        command = [str(BIN / "versitygw"), "--port", address, "--quiet", "posix", str(folder / "objects")]
    elif importlib.util.find_spec("moto"):
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    else:
        missing("an S3 store (versitygw or moto)")
    environment = {**os.environ, "ROOT_ACCESS_KEY": USER, "ROOT_SECRET_KEY": SECRET}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True, env=environment)
    try:
        until(lambda: answers(address), f"the store is up: {(folder / 'log').read_text()[-1000:]}")
        direct(address).create_dir(BUCKET)
        yield address
    finally:
        end(process)


@pytest.fixture(scope="session")
def front(store: str) -> Iterator[Any]:
    """A proxy before the store, one for the whole run, because a JVM keeps the environment of its start."""
    from tests.s3.s3_proxy import S3Proxy

    with S3Proxy(store) as s3_proxy:
        yield s3_proxy


@pytest.fixture(scope="session")
def operators(front: Any) -> dict[str, str]:
    """The environment variables that an operator would set to use the proxy."""
    from tests.s3.bucket import REGION, SECRET, USER

    return {
        "AWS_ACCESS_KEY_ID": USER,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": f"http://{front.address}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture
def proxy(front: Any, operators: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The proxy, with its environment variables set in this process."""
    for name, value in operators.items():
        monkeypatch.setenv(name, value)
    logging.getLogger("penstock").setLevel(logging.ERROR)
    silent_s = front.silent_s
    front.fresh()
    yield front
    front.silent_s = silent_s
    front.fresh()


@pytest.fixture(scope="session")
def cluster(operators: dict[str, str], request: pytest.FixtureRequest) -> Any:
    """The run's Spark session. It was started with the proxy's environment variables, which are unset in this
    process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in operators.items():
            patch.setenv(name, value)
        return request.getfixturevalue("spark")


@pytest.fixture(scope="session")
def upload(store: str, golden: Any) -> Callable[[str], str]:
    """Uploads a golden table to the store, once; its URI."""
    from tests.s3.bucket import BUCKET, copy_in

    def put(name: str) -> str:
        copy_in(golden.table(name), store, name)
        return f"s3://{BUCKET}/{name}"

    return cache(put)
