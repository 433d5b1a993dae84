"""Checks the storage of a table and a server from this machine. Writes nothing. `findings` rates the results."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.engine.doctor.findings import Finding, Level, judged_certificate, judged_skew
from penstock.proto.client.certificates import validity_of
from penstock.proto.errors import PenstockError
from penstock.proto.model.access import SYSTEM_CA, ServerAccess, host_and_port

if TYPE_CHECKING:
    from penstock.proto.client.client import EnumeratorClient
    from penstock.table.hudi_table import HudiTable

TIMEOUT_S: Final = 5.0
_MAGIC_BYTES: Final = 4


def storage_findings(path: str, now_s: Callable[[], float] = time.time) -> Iterator[Finding]:
    """Findings on whether this process can reach, list and read the table, and on the clock of the storage."""
    from penstock.table.hudi_table import open_table
    from penstock.table.storage.uris import redacted_uri

    begin_s = time.perf_counter()
    try:
        table = open_table(path)
        properties = table.properties
        yield Finding(
            "storage reach", Level.OK,
            f"{redacted_uri(table.storage.base_path)}: table version {properties.version}, in {_ms(begin_s)} ms",
        )  # fmt: skip
        begin_s = time.perf_counter()
        timeline = table.timeline()
        yield Finding("storage listing", Level.OK, f"{len(timeline.instants)} instants in {_ms(begin_s)} ms")
        newest = newest_file(table)
        if newest is None:
            yield Finding("storage rights", Level.OK, "no data file to read yet")
        else:
            with table.storage.open_input(newest) as source:
                source.read(_MAGIC_BYTES)
            yield Finding("storage rights", Level.OK, "lists folders and opens data files")
        written_ns = newest_change_ns(table)
    except PenstockError as error:
        yield Finding("storage", Level.FAIL, str(error), f"error {error.code}, docs/reference/cli.md")
        return
    except FileNotFoundError as error:
        yield Finding("storage rights", Level.FAIL, f"a file of a completed commit is gone: {error}")
        return
    if written_ns:
        ahead_s = written_ns / 1e9 - now_s()
        if ahead_s > 0:
            yield judged_skew("storage clock", ahead_s, "the newest file's time")
        else:
            yield Finding(
                "storage clock", Level.OK, f"the newest file was written {-ahead_s:.0f} s ago, none ahead of now"
            )


def newest_file(table: HudiTable) -> str | None:
    """A data file of the newest completed write; None if there is none."""
    for instant in reversed(table.timeline().completed_writes[-10:]):
        for stat in table.commit(instant).stats:
            if stat.path:
                return stat.path
    return None


def newest_change_ns(table: HudiTable) -> int:
    """The newest modification time of a file on the timeline, in nanoseconds; 0 if the store reports none."""
    files = table.storage.list_dir(table.properties.timeline_folder)
    return max((file.modified_ns for file in files), default=0)


def access_findings(access: ServerAccess, now: datetime) -> Iterator[Finding]:
    """Findings on the certificates in the client's options."""
    for option, path in (("serverCa", access.ca), ("serverCert", access.cert)):
        if path and path != SYSTEM_CA:
            try:
                data = Path(path).read_bytes()
            except OSError as error:
                yield Finding(f"certificate {option}", Level.FAIL, f"{path}: {error.strerror}", "give a PEM file")
            else:
                yield judged_certificate(f"certificate {option}", validity_of(data), now)


def server_findings(address: str, access: ServerAccess, table: str | None) -> Iterator[Finding]:
    """Findings on the server: whether it answers, its certificate, its clock, and the table if one is given."""
    from penstock.proto.client.client import CallLimits, EnumeratorClient

    now = datetime.now(UTC)
    yield from access_findings(access, now)
    if access.secured:
        yield server_certificate(address, access, now)
    limits = CallLimits(attempts=1, deadline_ms=round(TIMEOUT_S * 1000))
    client = EnumeratorClient(address, limits, access)
    begin_s = time.perf_counter()
    try:
        groups = client.list_groups(table or "")
        yield Finding("server", Level.OK, f"{address} answers in {_ms(begin_s)} ms, {len(groups)} groups")
    except PenstockError as error:
        yield Finding("server", Level.FAIL, str(error), f"error {error.code}, docs/reference/cli.md")
        return
    yield from server_status(client, table or "")
    if table is not None:
        try:
            described = client.describe_table(table)
        except PenstockError as error:
            yield Finding("server table", Level.FAIL, str(error), f"error {error.code}, docs/reference/cli.md")
            return
        yield Finding("server table", Level.OK, f"{table}, newest position {described.newest}")
        yield from storage_findings(described.base_path)


def server_status(client: EnumeratorClient, table: str) -> Iterator[Finding]:
    """Findings on the server's clock, assumed to be read half way between request and response, and on tables that the
    server cannot open."""
    before_s = time.time()
    try:
        status = client.describe_server(table)
    except PenstockError as error:
        yield Finding("server clock", Level.WARN, f"unknown: {error}")
        return
    after_s = time.time()
    yield judged_skew("server clock", status.now_ms / 1000 - (before_s + after_s) / 2, f"the server ({status.version})")
    for each in status.tables:
        if each.error_code:
            text = f"the server cannot open {each.table}: {each.error}"
            yield Finding("server tables", Level.FAIL, text, f"error {each.error_code}, docs/reference/cli.md")


def server_certificate(address: str, access: ServerAccess, now: datetime) -> Finding:
    """The finding on the server's certificate, whether a client would accept its signature or not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        if access.cert:
            context.load_cert_chain(access.cert, access.key)
        with (
            socket.create_connection(host_and_port(address), TIMEOUT_S) as plain,
            context.wrap_socket(plain) as secured,
        ):
            der = secured.getpeercert(binary_form=True)
    except OSError as error:
        return Finding(
            "certificate of the server", Level.FAIL, f"{address}: {error}", "check that a server with TLS listens there"
        )
    return judged_certificate("certificate of the server", validity_of(der or b""), now)


def _ms(begin_s: float) -> int:
    return round((time.perf_counter() - begin_s) * 1000)
