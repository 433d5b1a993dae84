"""Who may write through a server: the right `write`, and the principal that began a write."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import pytest

import penstock
from penstock.engine.write.service.served_timeline import ServedTimeline
from penstock.enumerator.server.assembly import TableFunctions, running_service
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, Settings, TableSettings
from penstock.enumerator.server.run import serve_enumerator
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import PermissionDenied, Unauthenticated
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.writes import NO_PROGRESS, TouchedGroups, WriteCommit, WriteId, WriteSpec, WriteState
from tests.unit.engine.write.service.coordinated import create, ids, rows

NAMES = ("one", "two", "reader", "elsewhere")
RULES = (
    AclRule(principal="token:one", rights=("read", "write"), tables=("t",)),
    AclRule(principal="token:two", rights=("read", "write"), tables=("t",)),
    AclRule(principal="token:reader", rights=("read", "plan", "consume"), tables=("t",)),
    AclRule(principal="token:elsewhere", rights=("read", "write"), tables=("u",)),
)
SPEC = WriteSpec(action="deltacommit", by_bucket=True)
GROUPS = TouchedGroups(groups=frozenset({("p", "00000001-x")}))
COMMIT = WriteCommit(metadata=b"", touched=GROUPS, writes_base_files=True)


class Bench:
    """A server of the tables t and u, and a token for each name."""

    def __init__(self, folder: pathlib.Path, address: str) -> None:
        self.folder, self.address = folder, address

    def token(self, name: str) -> str:
        return str(self.folder / name)

    def client(self, name: str) -> EnumeratorClient:
        return EnumeratorClient(self.address, access=ServerAccess(token=self.token(name)))

    def write(self, name: str, prefix: str) -> None:
        """A write of three rows."""
        options = {"serverToken": self.token(name)}
        penstock.write("t", rows(prefix, "oslo"), server=self.address, server_options=options)


@pytest.fixture
def bench(tmp_path: pathlib.Path) -> Iterator[Bench]:
    lines = []
    for name in NAMES:
        token, line = new_token(name)
        (tmp_path / name).write_text(token)
        lines.append(line)
    (tmp_path / "tokens").write_text("\n".join(lines))
    for table in ("t", "u"):
        create(tmp_path / "lake" / table)
    tables = {name: TableSettings(path=str(tmp_path / "lake" / name)) for name in ("t", "u")}
    settings = Settings(tables=tables, listen="127.0.0.1:0", tokens=str(tmp_path / "tokens"), acl=RULES)
    with running_service(settings, functions=TableFunctions(timelines=ServedTimeline)) as service:
        running = serve_enumerator(service, groups=service, tables=service, writes=service.writes, settings=settings)
        yield Bench(tmp_path, running.address)
        running.stop(0)


@pytest.mark.parametrize("name", ["reader", "elsewhere"])
def test_writer_without_the_right_is_refused(bench: Bench, name: str) -> None:
    with pytest.raises(PermissionDenied, match="has no right"):
        bench.write(name, "a")
    calls: list[Callable[[EnumeratorClient], object]] = [
        lambda client: client.begin_write(WriteId("t", "a", 1), "r", SPEC),
        lambda client: client.lease_groups(WriteId("t", "a", 1), GROUPS),
        lambda client: client.renew_write(WriteId("t", "a", 1), NO_PROGRESS),
        lambda client: client.commit_write(WriteId("t", "a", 1), COMMIT),
        lambda client: client.abort_write(WriteId("t", "a", 1)),
    ]
    for call in calls:
        with pytest.raises(PermissionDenied, match="has no right `write` on table 't'"):
            call(bench.client(name))
    assert not bench.client("one").list_writes("t") and not ids(bench.folder / "lake/t")
    bench.write("one", "a")
    assert len(ids(bench.folder / "lake/t")) == 3, "the control"


def test_writer_without_a_token_is_refused(bench: Bench) -> None:
    with pytest.raises(Unauthenticated):
        penstock.write("t", rows("a", "oslo"), server=bench.address)
    assert not ids(bench.folder / "lake/t")


def test_another_principal_changes_no_write(bench: Bench) -> None:
    one, two, this = bench.client("one"), bench.client("two"), WriteId("t", "a", 1)
    begun = one.begin_write(this, "r", SPEC)
    one.lease_groups(this, GROUPS)
    calls: list[Callable[[], object]] = [
        lambda: two.begin_write(this, "r", SPEC),
        lambda: two.begin_write(WriteId("t", "a", 2), "r2", SPEC),
        lambda: two.lease_groups(this, GROUPS),
        lambda: two.renew_write(this, NO_PROGRESS),
        lambda: two.commit_write(this, COMMIT),
        lambda: two.abort_write(this),
    ]
    for call in calls:
        with pytest.raises(PermissionDenied, match="another principal writes under this owner"):
            call()
    (shown,) = one.list_writes("t")
    assert (shown.id, shown.state, shown.instant, shown.groups) == (this, WriteState.OPEN, begun.instant, 1)
    one.abort_write(this)
    assert not one.list_writes("t"), "the control"


def test_list_of_writes_needs_the_right_on_every_group(bench: Bench) -> None:
    assert bench.client("reader").list_writes("t") == ()
    with pytest.raises(PermissionDenied):
        bench.client("elsewhere").list_writes("t")
    with pytest.raises(PermissionDenied, match="all tables"):
        bench.client("one").list_writes()
