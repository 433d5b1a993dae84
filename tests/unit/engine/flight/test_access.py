"""Who may read what: forged, expired and foreign tickets, callers, rights, certificates, and the access log."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import penstock
from penstock.engine.flight.run import RunningFlightServer
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, LimitSettings, TlsSettings
from penstock.proto.errors import ConfigurationError
from tests.certificates import Authority
from tests.unit.engine.flight.served import Client, key_file, served, wait_until

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden
COW, MOR = "B_v9_inc_cow", "A_compaction_then_updates_v9_h120"


@pytest.fixture(scope="module")
def server(golden: GoldenTables) -> Iterator[RunningFlightServer]:
    """A server of two tables for everybody on this machine."""
    with served({"cow": golden.table(COW), "mor": golden.table(MOR)}) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningFlightServer) -> Client:
    return Client(server.address)


def test_forged_tickets(client: Client) -> None:
    ticket = client.ticket("cow")
    assert client.get(ticket).read_all().num_rows
    for forged in (b"", b"x", ticket[:-1], ticket + b"\0", ticket[:40] + bytes([ticket[40] ^ 1]) + ticket[41:]):
        with pytest.raises(fl.FlightUnauthorizedError, match="not signed by a key of this server"):
            client.get(forged).read_all()
    renamed = ticket.replace(b'"cow"', b'"mor"')
    assert renamed != ticket
    with pytest.raises(fl.FlightUnauthorizedError, match="not signed"):
        client.get(renamed).read_all()


def test_ticket_of_another_server(client: Client, golden: GoldenTables) -> None:
    with served({"cow": golden.table(COW)}) as other, pytest.raises(fl.FlightUnauthorizedError, match="not signed"):
        Client(other.address).get(client.ticket("cow")).read_all()


def test_data_servers_that_share_a_key(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    """The second server has the table at another path, under the same name; the third does not have it."""
    copy = golden.copy(MOR, tmp_path)
    key = key_file(tmp_path, "ab" * 32)
    expected = penstock.read(str(golden.table(MOR))).read_all()
    with (
        served({"mor": copy}, ticket_key=key) as reader,
        served({"other": copy}, ticket_key=key) as stranger,
        served({"mor": golden.table(MOR)}, ticket_key=key, locations=(reader.address, stranger.address)) as planner,
    ):
        info = Client(planner.address).info("mor")
        uris = [[location.uri.decode() for location in endpoint.locations] for endpoint in info.endpoints]
        both = [f"grpc://{reader.address}", f"grpc://{stranger.address}"]
        assert uris[:2] == [both, both[::-1]], "each endpoint begins with another location"
        parts = [Client(reader.address).get(endpoint.ticket).read_all() for endpoint in info.endpoints]
        assert pa.concat_tables(parts).equals(expected)
        with pytest.raises(pa.ArrowKeyError, match="TABLE_NOT_FOUND: no table 'mor' is served here"):
            Client(stranger.address).get(info.endpoints[0].ticket).read_all()


def test_expired_ticket(golden: GoldenTables, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1_800_000_000.0]
    monkeypatch.setattr("penstock.engine.flight.server.time.time", lambda: now_s[0])
    with served({"cow": golden.table(COW)}, ticket_lifetime_ms=60_000) as running:
        client = Client(running.address)
        endpoint = client.info("cow").endpoints[0]
        assert endpoint.expiration_time.as_py().timestamp() == now_s[0] + 60
        now_s[0] += 59
        assert client.get(endpoint.ticket).read_all().num_rows
        now_s[0] += 1
        with pytest.raises(fl.FlightUnauthorizedError, match="ticket: it expired at 2027-01-15"):
            client.get(endpoint.ticket).read_all()


class Secured:
    """A server with tokens and rules: ann reads every table, ben only `cow`, eve lists only."""

    def __init__(self, golden: GoldenTables, folder: pathlib.Path) -> None:
        self.tokens: dict[str, str] = {}
        lines = []
        for name in ("ann", "ben", "eve"):
            self.tokens[name], line = new_token(name)
            lines.append(line)
        self.file = folder / "tokens"
        self.file.write_text("\n".join(lines) + "\n")
        rules = (
            AclRule(principal="token:ann", rights=("read", "plan")),
            AclRule(principal="token:ben", rights=("read", "plan"), tables=("cow",)),
            AclRule(principal="token:eve", rights=("read",)),
        )
        self.server = {"tokens": str(self.file), "acl": rules}
        self.tables = {"cow": golden.table(COW), "mor": golden.table(MOR)}


@pytest.fixture
def secured(golden: GoldenTables, tmp_path: pathlib.Path) -> Secured:
    return Secured(golden, tmp_path)


def test_callers_without_a_valid_token(secured: Secured) -> None:
    with served(secured.tables, secured.server) as running:
        ticket = Client(running.address, secured.tokens["ann"]).ticket("cow")
        for token in ("", "pst_wrong", secured.tokens["ann"] + "x"):
            client = Client(running.address, token)
            calls: list[Callable[[], object]] = [
                client.tables,
                lambda client=client: client.info("cow"),
                lambda client=client: client.info("nope"),
                lambda client=client: client.schema("cow"),
                lambda client=client: client.get(ticket).read_all(),
                lambda client=client: list(client.connection.list_actions(client.options)),
                lambda client=client: list(client.connection.do_action(fl.Action("x", b""), client.options)),
            ]
            for call in calls:
                with pytest.raises(
                    (fl.FlightUnauthenticatedError, pa.ArrowException), match="UNAUTHENTICATED: "
                ) as caught:
                    call()
                assert not token or token not in str(caught.value)


def test_two_tokens_in_one_call(secured: Secured) -> None:
    with served(secured.tables, secured.server) as running:
        client = Client(running.address)
        header = (b"authorization", f"Bearer {secured.tokens['ann']}".encode())
        client.options = fl.FlightCallOptions(headers=[header, header])
        with pytest.raises(fl.FlightUnauthenticatedError, match="one token, once"):
            client.info("cow")


def test_rights_by_table(secured: Secured) -> None:
    with served(secured.tables, secured.server) as running:
        ann, ben, eve = (Client(running.address, secured.tokens[name]) for name in ("ann", "ben", "eve"))
        assert sorted(ann.tables()) == ["cow", "mor"]
        assert sorted(ben.tables()) == ["cow"]
        assert sorted(eve.tables()) == ["cow", "mor"]
        assert ben.rows("cow").equals(ann.rows("cow"))
        for name in ("mor", "nope"):  # the answer does not show whether the table exists
            with pytest.raises(fl.FlightUnauthorizedError, match="token:ben has no right `plan` on table"):
                ben.info(name)
            with pytest.raises(pa.ArrowException, match="PERMISSION_DENIED: token:ben has no right `read` on table"):
                ben.schema(name)
        with pytest.raises(fl.FlightUnauthorizedError, match="token:eve has no right `plan`"):
            eve.info("cow")
        assert eve.schema("cow").equals(ann.schema("cow"))


def test_ticket_of_another_principal(secured: Secured) -> None:
    with served(secured.tables, secured.server) as running:
        ann, ben = (Client(running.address, secured.tokens[name]) for name in ("ann", "ben"))
        ticket = ann.ticket("cow")
        with pytest.raises(fl.FlightUnauthorizedError, match="it was given to another caller"):
            ben.get(ticket).read_all()
        assert ann.get(ticket).read_all().num_rows


def test_rights_that_are_withdrawn_after_the_plan(secured: Secured, tmp_path: pathlib.Path) -> None:
    key = key_file(tmp_path, "cd" * 32)
    with served(secured.tables, secured.server, ticket_key=key) as running:
        ticket = Client(running.address, secured.tokens["ben"]).ticket("cow")
    withdrawn = {**secured.server, "acl": tuple(rule for rule in secured.server["acl"] if "ben" not in rule.principal)}
    with (
        served(secured.tables, withdrawn, ticket_key=key) as running,
        pytest.raises(fl.FlightUnauthorizedError, match="token:ben has no right `plan`"),
    ):
        Client(running.address, secured.tokens["ben"]).get(ticket).read_all()


def test_token_that_is_removed(secured: Secured) -> None:
    with served(secured.tables, secured.server) as running:
        ann = Client(running.address, secured.tokens["ann"])
        ticket = ann.ticket("cow")
        lines = secured.file.read_text().splitlines()
        secured.file.write_text("\n".join(lines[1:]) + "\n")
        with pytest.raises(fl.FlightUnauthenticatedError, match="not known to this server"):
            ann.get(ticket).read_all()


def test_tls_and_client_certificates(secured: Secured, tmp_path: pathlib.Path) -> None:
    authority, strangers = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs", "somebody else")
    pair = authority.signed("server", "localhost", "127.0.0.1")
    tls = TlsSettings(cert=pair.cert, key=pair.key, client_ca=authority.ca, allowed_sans=("etl-*",))
    acl = (AclRule(principal="cert:etl-1", rights=("read", "plan")),)
    roots = pathlib.Path(authority.ca).read_bytes()

    def client(signer: Authority, name: str, *sans: str) -> Client:
        own = signer.signed(name, *sans)
        return Client(
            running.address,
            scheme="grpc+tls",
            tls_root_certs=roots,
            cert_chain=pathlib.Path(own.cert).read_bytes(),
            private_key=pathlib.Path(own.key).read_bytes(),
        )

    with served(secured.tables, {"tls": tls, "acl": acl}) as running:
        good = client(authority, "good", "etl-1")
        ticket = good.ticket("cow")
        assert good.get(ticket).read_all().num_rows
        with pytest.raises(fl.FlightUnauthorizedError, match="cert:etl-2 has no right"):
            client(authority, "second", "etl-2").info("cow")
        with pytest.raises(fl.FlightUnauthorizedError, match="none of the client certificate's names is allowed"):
            client(authority, "third", "laptop").info("cow")
        for refused in (client(strangers, "fourth", "etl-1"), Client(running.address)):
            with pytest.raises(fl.FlightUnavailableError):
                refused.info("cow")
        with pytest.raises(fl.FlightUnavailableError):
            Client(running.address, scheme="grpc+tls", tls_root_certs=roots).info("cow")


def test_too_many_calls_of_one_peer(golden: GoldenTables) -> None:
    limits = LimitSettings(rate_per_second=0.001, rate_burst=2)
    with served({"cow": golden.table(COW)}, {"limits": limits}) as running:
        client = Client(running.address)
        client.info("cow")
        client.tables()
        with pytest.raises(fl.FlightUnavailableError, match="OVERLOADED: too many calls"):
            client.info("cow")


def test_port_in_use(server: RunningFlightServer, golden: GoldenTables) -> None:
    with (
        pytest.raises(ConfigurationError, match=r"cannot listen at 127\.0\.0\.1:\d+: is the port taken"),
        served({"cow": golden.table(COW)}, {"listen": server.address}),
    ):
        pass


def test_access_log(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="penstock.engine.flight")
    with served(secured.tables, secured.server) as running:
        client = Client(running.address, secured.tokens["ann"])
        rows = client.get(client.ticket("cow", where="id > ''")).read_all().num_rows
        wait_until(lambda: any("flight sent" in line for line in caplog.messages))
        with pytest.raises(fl.FlightUnauthenticatedError):
            Client(running.address, "pst_wrong").info("cow")
    (line,) = [line for line in caplog.messages if line.startswith("flight sent")]
    assert "principal=token:ann peer=ipv4:127.0.0.1 table=cow split=" in line and f"rows={rows} " in line
    assert "refused: UNAUTHENTICATED" in caplog.text
    for token in (*secured.tokens.values(), "pst_wrong"):
        assert token not in caplog.text
