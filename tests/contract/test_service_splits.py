"""Table services that a real server hands out over gRPC: members carry them out, readers hold them, and a member needs
the right `write`."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

import penstock
from penstock.engine.cli.main import run
from penstock.engine.table_services.work.carry_out import carry_out
from penstock.engine.table_services.work.member import Member
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.services import ServiceSettings
from penstock.enumerator.server.config.settings import AclRule
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import ConfigurationError, PenstockError, PermissionDenied, WriteConflict
from penstock.proto.model.access import NO_ACCESS, ServerAccess
from penstock.proto.model.service_splits import (
    Service,
    ServiceAnswer,
    ServiceOutcome,
    ServiceRequest,
    ServiceSplit,
    ServiceSplitState,
)
from tests.served_services import SERVICES, instants, served, written
from tests.unit.engine.write.service.coordinated import ids, rows


def test_members_carry_out_what_is_due(tmp_path: pathlib.Path) -> None:
    tables = {name: written(tmp_path / name) for name in ("t", "u")}
    before = {name: ids(path) for name, path in tables.items()}
    with served(tables, replace(SERVICES, plan_bytes=1)) as server:
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(penstock.work(server.address, until_idle=True)))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(each.failed for each in results) == 0
    for name, path in tables.items():
        assert len(instants(path, ".compaction.requested")) >= 2, "one plan for each group"
        assert len(instants(path, ".commit")) == len(instants(path, ".compaction.requested"))
        assert instants(path, ".clean")
        assert len(instants(path, ".deltacommit")) < 12, "some are archived"
        assert ids(path) == before[name]


def test_reader_holds_the_clean(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "t", 1)
    with served({"t": path}, replace(SERVICES, run=("compact", "clean"), compact_after=1)) as server:
        with penstock.Consumer(server.address, "t", group="billing") as consumer:
            while not consumer.caught_up:
                if consumer.poll(timeout_ms=5_000):
                    consumer.commit()
        for number in range(2, 6):
            penstock.write(str(path), rows("a", "oslo", number))
            assert penstock.work(server.address, until_idle=True).failed == 0
        assert len(instants(path, ".commit")) >= 3, "it was compacted"
        assert not instants(path, ".clean"), "the group has not read the newest writes"
        files = set(path.rglob("*.log*"))
        EnumeratorClient(server.address).delete_group("t", "billing")
        penstock.write(str(path), rows("a", "oslo", 7))
        assert penstock.work(server.address, until_idle=True).failed == 0
        assert instants(path, ".clean")
        assert not files <= set(path.rglob("*.log*"))


def test_split_of_a_lost_member_is_carried_out_by_another(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "t")
    with served({"t": path}, replace(SERVICES, run=("compact",))) as server:
        client = EnumeratorClient(server.address)
        lost = ask_for(client, "lost")
        (summary,) = client.list_service_splits("t")
        assert (summary.state, summary.member) == (ServiceSplitState.RUNNING, "lost")
        assert penstock.work(server.address, services=["clean"], until_idle=True).done == 0
        # It goes on after another process planned and carried out what it has.
        penstock.compact(str(path))
        text = carry_out(lost, str(path), server.address, NO_ACCESS)
        assert text == "no file group has logs"


def ask_for(client: EnumeratorClient, member: str) -> ServiceSplit:
    """The first split that the server has for a member."""
    while True:
        answer: ServiceAnswer = client.request_service_split(ServiceRequest(member=member))
        if answer.split is not None:
            return answer.split


def test_failed_split_is_shown_and_waits(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "t")

    def fail(split: ServiceSplit, table: str, server: str, access: ServerAccess) -> str:
        raise WriteConflict(f"{split.id}: somebody else was first")

    with served({"t": path}, replace(SERVICES, run=("compact",))) as server:
        client = EnumeratorClient(server.address)
        stopped = threading.Event()

        def fail_once(split: ServiceSplit, table: str, address: str, access: ServerAccess) -> str:
            stopped.set()
            return fail(split, table, address, access)

        member = Member(
            server=server.address,
            access=NO_ACCESS,
            request=ServiceRequest(member="m"),
            client=client,
            until_idle=False,
            stopped=stopped,
            carry_out=fail_once,
        )
        member.run()
        assert member.result.failed == 1
        assert run(["services", "list", "--server", server.address, "--format", "json"]) == 0
        (shown,) = json.loads(capsys.readouterr().out)
        assert (shown["state"], shown["failures"], shown["member"]) == ("failing", 1, None)
        assert "somebody else was first" in shown["error"]
        assert not ask_again(client)


def ask_again(client: EnumeratorClient) -> bool:
    return client.request_service_split(ServiceRequest(member="n")).split is not None


def test_clustering_whose_groups_changed_is_rolled_back(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "t", 3, kind="copy_on_write", index="simple")
    services = ServiceSettings(run=("cluster",), cluster_after=1)
    penstock.write(str(path), rows("c", "oslo", 9), "bulk_insert")
    with served({"t": path}, services) as server:
        client = EnumeratorClient(server.address)
        plan = ask_for(client, "m")
        assert (plan.id.service, plan.id.instant) == (Service.CLUSTER, "")
        carry_out(plan, str(path), server.address, NO_ACCESS)
        assert len(instants(path, ".clustering.requested")) == 1
        (instant,) = (name.partition(".")[0] for name in instants(path, ".clustering.requested"))
        planned = replace(plan, id=replace(plan.id, instant=instant))
        assert carry_out(planned, str(path), server.address, NO_ACCESS).startswith(instant)
        with pytest.raises(WriteConflict, match="removed or completed"):
            carry_out(planned, str(path), server.address, NO_ACCESS)


def test_clustering_leaves_out_what_open_writes_hold(tmp_path: pathlib.Path) -> None:
    from penstock.engine.write.service.remote_transaction import write_server
    from tests.unit.engine.write.service.coordinated import write_through

    path = written(tmp_path / "t", 3, kind="copy_on_write", index="simple")
    for prefix in "cd":
        penstock.write(str(path), rows(prefix, "oslo", 9), "bulk_insert")
        penstock.write(str(path), rows(prefix, "riga", 9), "bulk_insert")
    planned: list[str] = []
    with served({"t": path}, ServiceSettings(run=("cluster",), cluster_after=1)) as server:

        def plan() -> None:
            client = EnumeratorClient(server.address)
            split = ask_for(client, "m")
            assert {partition for partition, _ in split.avoided} == {"oslo"}
            planned.append(carry_out(split, str(path), server.address, NO_ACCESS))
            client.finish_service_split(split.id, "m", split.attempt, ServiceOutcome())

        write_through(write_server(server.address, None), "t", rows("a", "oslo", 20), after=plan)
        before = ids(path)
        assert penstock.work(server.address, until_idle=True).failed == 0
    assert planned
    assert ids(path) == before
    assert ("a0", 20) in before


def test_command_works_until_idle(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "t")
    with served({"t": path}) as server:
        arguments = ["work", "--server", server.address, "--table", "t", "--service", "compact", "--until-idle"]
        assert run(arguments) == 0
        assert capsys.readouterr().out == "2 splits done, 0 failed\n"
        assert not instants(path, ".clean")
        assert run(["work", "--until-idle"]) == 2


def test_command_tells_that_a_split_failed(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "t", 1)
    with served({"t": path}, ServiceSettings(run=("cluster",), cluster_after=1)) as server:
        assert run(["work", "--server", server.address, "--until-idle"]) == 1
        assert capsys.readouterr().out == "0 splits done, 1 failed\n"
        (split,) = EnumeratorClient(server.address).list_service_splits("t")
        assert "has a bucket index" in split.error


def test_wrong_names(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "t", 1)
    with served({"t": path}) as server:
        with pytest.raises(ConfigurationError, match="drop"):
            penstock.work(server.address, services=["drop"], until_idle=True)
        with pytest.raises(PenstockError, match="nothere"):
            penstock.work(server.address, table="nothere", until_idle=True)


RULES = (
    AclRule(principal="token:one", rights=("read", "write")),
    AclRule(principal="token:two", rights=("read", "write")),
    AclRule(principal="token:reader", rights=("read", "plan", "consume")),
    AclRule(principal="token:elsewhere", rights=("read", "write"), tables=("u",)),
)


def test_member_needs_the_right_and_keeps_its_split_from_another_principal(tmp_path: pathlib.Path) -> None:
    path, lines, clients = written(tmp_path / "t", 3), [], {}
    for rule in RULES:
        name = rule.principal.partition(":")[2]
        token, line = new_token(name)
        (tmp_path / name).write_text(token)
        lines.append(line)
    (tmp_path / "tokens").write_text("\n".join(lines))
    with served({"t": path}, tokens=str(tmp_path / "tokens"), acl=RULES) as server:
        for rule in RULES:
            name = rule.principal.partition(":")[2]
            access = ServerAccess(token=str(tmp_path / name))
            clients[name] = EnumeratorClient(server.address, access=access)
        split = ask_for(clients["one"], "m")
        calls: list[Callable[[EnumeratorClient], object]] = [
            lambda client: client.renew_service_split(split.id, "m", split.attempt),
            lambda client: client.finish_service_split(split.id, "m", split.attempt, ServiceOutcome()),
        ]
        for name in ("reader", "elsewhere"):
            with pytest.raises(PermissionDenied, match="has no right"):
                clients[name].request_service_split(ServiceRequest(member="n"))
            for call in calls:
                with pytest.raises(PermissionDenied, match="has no right `write` on table 't'"):
                    call(clients[name])
        for call in calls:
            with pytest.raises(PermissionDenied, match="another principal has it"):
                call(clients["two"])
        with pytest.raises(PermissionDenied):
            clients["elsewhere"].list_service_splits("t")
        for call in calls:
            call(clients["one"])
