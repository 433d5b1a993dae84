"""What a caller with rights on some tables sees and changes of other tables: nothing."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from penstock.engine.consumer import Consumer
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, Settings
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import ConfigurationError, PermissionDenied, TableNotFound
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.groups import GroupScope, GroupSpec, StartAt
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Incremental, PlanRequest
from tests.contract.scripted_lake import ManyTables, many_tables
from tests.contract.scripted_table import FAST

RIGHTS = ("read", "plan", "consume", "admin")
RULES = (
    AclRule(principal="token:sales", rights=RIGHTS, tables=("s.*",)),
    AclRule(principal="token:hr", rights=RIGHTS, tables=("hr.*",)),
)


@dataclass
class Teams:
    """A server with the tables s.a, s.b and hr.x, and a token for each team."""

    many: ManyTables
    folder: pathlib.Path

    def client(self, team: str) -> EnumeratorClient:
        assert self.many.server_address is not None
        return EnumeratorClient(self.many.server_address, FAST, access=ServerAccess(token=self.token(team)))

    def token(self, team: str) -> str:
        return str(self.folder / team)


@pytest.fixture
def teams(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Teams]:
    lines = []
    for name in ("sales", "hr"):
        token, line = new_token(name)
        (tmp_path / name).write_text(token)
        lines.append(line)
    (tmp_path / "tokens").write_text("\n".join(lines))
    settings = Settings(tokens=str(tmp_path / "tokens"), acl=RULES)
    with many_tables(monkeypatch, served=True, settings=settings) as many:
        many.serve("s.a", "s.b", "hr.x")
        yield Teams(many, tmp_path)


def test_error_for_an_unknown_table_names_only_tables_of_the_caller(teams: Teams) -> None:
    with pytest.raises(TableNotFound) as caught:
        Consumer(table="s.nothing", group="g", enumerator=teams.client("sales"), after="20260101000000000").join()
    assert "s.a" in str(caught.value) and "hr" not in str(caught.value)


def test_group_over_tables_of_others_cannot_be_created_seen_or_changed(teams: Teams) -> None:
    with pytest.raises(PermissionDenied):
        teams.many.consumer(tables="hr.*", token=teams.token("sales")).join()
    plain = GroupSpec(scope=GroupScope(request=PlanRequest(table="hr.*", query=Incremental())))
    with pytest.raises(PermissionDenied):  # a group of one table, whose name is the pattern
        teams.client("sales").join_group("g", "r", plain, "join")
    with teams.many.consumer(tables="hr.*", token=teams.token("hr"), where="secret > 1") as reader:
        reader.join()
        sales = teams.client("sales")
        calls: list[Callable[[], object]] = [
            lambda: sales.describe_group("hr.*", "g"),
            lambda: sales.reset_group("hr.*", "g", StartAt(EARLIEST), dry_run=True),
            lambda: sales.delete_group("hr.*", "g"),
            lambda: sales.list_groups("hr.*"),
            lambda: sales.describe_server("hr.*"),
        ]
        for served in (("s.a", "hr.x"), ("s.a",), ()):  # also while the tables are gone
            teams.many.serve(*served)
            for call in calls:
                with pytest.raises(PermissionDenied):
                    call()


def test_group_name_of_another_team_is_refused_with_what_to_do_and_without_its_pattern(teams: Teams) -> None:
    with teams.many.consumer(tables="hr.*", token=teams.token("hr")) as theirs:
        theirs.join()
        with pytest.raises(ConfigurationError, match=r"one pattern on a server.*use another group name") as caught:
            teams.many.consumer(tables="s.*", token=teams.token("sales")).join()
        assert "hr" not in str(caught.value), "the pattern is not shown to a caller without a right on it"
        own = Consumer(tables="s.*", group="mine", enumerator=teams.client("sales"), reader_id="r")
        own.join()
        own.close()
        with pytest.raises(ConfigurationError, match=r"'mine' of table 'hr\.\*'.*one pattern on a server"):
            Consumer(tables="hr.*", group="mine", enumerator=teams.client("hr"), reader_id="r").join()


def test_group_over_tables_that_do_not_exist_yet_is_for_callers_of_the_pattern(teams: Teams) -> None:
    teams.many.serve("s.a")
    with pytest.raises(PermissionDenied):
        teams.many.consumer(tables="hr.*", token=teams.token("sales")).join()
    with teams.many.consumer(tables="hr.*", token=teams.token("hr")) as consumer:
        consumer.join()
        teams.many.serve("s.a", "hr.x")
        teams.many.discover()
        teams.many.clock.now_ms += 1_000
        consumer.poll(0)
        teams.many.discover()
        teams.many.clock.now_ms += 1_000
        batch = consumer.poll(0)
        assert batch is not None and batch.table == "hr.x"
