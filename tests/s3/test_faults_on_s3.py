"""Fault 19: an object store that slows down, closes connections, truncates and shortens responses, returns stale
listings, or denies access. Rows are exact, or an error says whether a retry may succeed."""

from __future__ import annotations

import itertools
import pathlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.cli.main import run
from penstock.proto.errors import Fenced, PenstockError, StorageError
from penstock.table.hudi_table import open_table
from tests.faults.served import Served, check_changes, differing, following, until
from tests.ops.places import BIN
from tests.s3.bucket import BUCKET
from tests.s3.fault_schedule import FaultSchedule, Storms, growing
from tests.s3.s3_proxy import Fault, Request, S3Proxy

pytestmark = [pytest.mark.ops, pytest.mark.golden, pytest.mark.timeout(900)]
MERGED = "A_merge_event_long_v9_h120"
"""Merge on read: base files and logs, read in ranges."""


def rows(table: pa.Table) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.CUT, Fault.SHORT])
def test_fault_19_read_is_exact_or_a_retryable_error(
    proxy: Any, upload: Callable[[str], str], golden: Any, fault: Fault
) -> None:
    """One request fails, early or late in the read; then this one and all after it. If the client retries without
    success, one read is enough, because each such read waits ten seconds."""
    uri, expected = upload(MERGED), rows(penstock.read(golden.table(MERGED)).read_all())
    proxy.fresh()
    assert rows(penstock.read(uri).read_all()) == expected
    total = proxy.counts.total()
    assert total > 10
    outcomes: Counter[str] = Counter()
    places = range(0, total, total // 3)
    for_good = {Fault.SLOW_DOWN: places[1:2], Fault.CUT: places[2:3], Fault.SHORT: places}[fault]
    for first, lasting in [*((place, False) for place in places), *((place, True) for place in for_good)]:
        counter = itertools.count()

        def plan(request: Request, first: int = first, lasting: bool = lasting, seen: Any = counter) -> Fault | None:
            place = next(seen)
            return fault if place == first or (lasting and place > first) else None

        proxy.fresh(plan)
        try:
            assert rows(penstock.read(uri).read_all()) == expected
            outcomes["exact"] += 1
        except PenstockError as error:
            assert error.retryable, f"request {first}: {error.code}: {error}"
            outcomes["again"] += 1
    assert outcomes["exact"] and outcomes["again"], outcomes


def test_fault_19_store_that_hangs_up_is_a_retryable_error(proxy: Any, upload: Callable[[str], str]) -> None:
    uri = upload(MERGED)
    proxy.silent_s = 0.05
    proxy.fresh(lambda request: Fault.SILENT)
    with pytest.raises(StorageError, match=r"a retry may succeed"):
        open_table(uri)


def test_fault_19_denied_access_is_an_error_without_retry(
    proxy: Any, upload: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = upload(MERGED)
    proxy.fresh(lambda request: Fault.DENIED)
    with pytest.raises(PenstockError, match="storage refuses") as denied:
        open_table(uri)
    assert not denied.value.retryable
    assert proxy.counts.total() <= 2
    proxy.fresh()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(PenstockError, match="storage refuses") as unknown:
        open_table(uri)
    assert not unknown.value.retryable


def test_wrong_region_is_an_error_with_the_right_one(
    proxy: Any, upload: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The response of S3, by the proxy, and that of the store, if it checks the region: moto does not."""
    uri = upload(MERGED)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    for fault in [Fault.ELSEWHERE, *([None] if (BIN / "versitygw").exists() else [])]:
        proxy.fresh(lambda request, fault=fault: fault)
        assert run(["read", uri]) == 2
        errors = capfd.readouterr().err
        assert errors.startswith("error [CONFIGURATION]: ") and uri in errors
        assert errors.endswith(
            "not in region eu-central-1, it is in us-east-1: give ?region=us-east-1 in the table's URI, or AWS_REGION\n"
        )
        assert errors.count("\n") == 1, errors


def test_reset_connection_leaves_nothing_on_stderr_and_other_errors_do(capfd: pytest.CaptureFixture[str]) -> None:
    """Else a late thread of the proxy adds lines to those of a command in this process."""
    with S3Proxy("127.0.0.1:9") as proxy:
        host, _, port = proxy.address.partition(":")
        broken: list[threading.Thread] = []

        def plan(request: Request) -> Fault | None:
            broken.append(threading.current_thread())
            if request.key == "/error":
                raise ValueError("a defect of the proxy")
            return Fault.DENIED

        proxy.fresh(plan)
        for path, text in (("/reset", ""), ("/error", "a defect of the proxy")):
            with socket.create_connection((host, int(port))) as client:
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                client.recv(1)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a close is a reset
            broken.pop().join(60)
            errors = capfd.readouterr().err
            assert (text in errors) if text else not errors, errors


def test_missing_bucket_or_table_is_named(proxy: Any, upload: Callable[[str], str]) -> None:
    upload(MERGED)
    for uri in (f"s3://{BUCKET}/nothing", "s3://no-such-bucket/table"):
        with pytest.raises(PenstockError) as missing:
            open_table(uri)
        assert missing.value.code == "TABLE_NOT_FOUND" and uri in str(missing.value)


# --- a stream


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [(partial(FaultSchedule, 17), {Fault.SLOW_DOWN, Fault.STALE, Fault.CUT, Fault.SHORT}),
     (partial(Storms, 6, 20), {Fault.SLOW_DOWN, Fault.STALE})],
    ids=["one request in 17", "storms of 503"],
)  # fmt: skip
def test_fault_19_stream_over_a_faulty_store_has_the_exact_rows(
    proxy: Any, store: str, golden: Any, tmp_path: pathlib.Path, kind: Callable[[], Any], kinds: set[Fault]
) -> None:
    """The server and the reader use the proxy; commits arrive meanwhile."""
    fault_schedule = kind()
    with growing(golden, store, tmp_path) as (uri, arrive), Served(tmp_path, uri) as server:
        proxy.fresh(fault_schedule)
        batches: list[pa.RecordBatch] = []
        troubles: Counter[str] = Counter()
        with following(server, "r") as reader:
            until(lambda: took(reader, batches, troubles), "the reader has what is there", 100)
            before = len(batches)
            arrive()
            until(
                lambda: took(reader, batches, troubles) and len(batches) > before and not differing(golden, batches),
                "the reader has the rest",
                100,
            )
        seen = dict(proxy.faults)
        proxy.fresh()
    check_changes(golden, batches)
    assert seen.keys() == kinds, seen
    assert troubles.keys() <= {"STORAGE", "FENCED"}


def took(reader: Any, batches: list[pa.RecordBatch], troubles: Counter[str]) -> bool:
    """Reads and commits available batches; retries after storage errors."""
    try:
        while (consumed := reader.poll(200)) is not None:
            reader.commit(consumed)
            batches.append(consumed.batch)
    except Fenced:
        reader.join()
    except PenstockError as error:
        troubles[error.code] += 1
        assert error.retryable, f"{error.code}: {error}"
        return False
    return bool(reader.caught_up)
