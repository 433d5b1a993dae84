"""How a client reaches a server: which options go together, where a token is looked for, what is refused early."""

from __future__ import annotations

import pathlib
import pickle

import pytest

from penstock.proto.client.channel import MAX_TOKEN_BYTES, call_metadata
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import ConfigurationError, Unauthenticated
from penstock.proto.model.access import NO_ACCESS, ServerAccess, client_address
from penstock.proto.options.registry import EntryPoint, parse_options


def test_options_become_access() -> None:
    value = {"server_ca": "ca.pem", "serverCert": "c.pem", "server-key": "k.pem"}
    result = parse_options(
        value, entry_point=EntryPoint.BATCH, environment={"PENSTOCK_SERVER_TOKEN": "env:TOKEN"}
    ).access
    assert result == ServerAccess(ca="ca.pem", cert="c.pem", key="k.pem", token="env:TOKEN")
    assert result.secured
    assert pickle.loads(pickle.dumps(result)) == result
    assert parse_options({}, entry_point=EntryPoint.CLI).access == NO_ACCESS


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"ca": "x", "cert": "c"}, "option serverCert is given without serverKey"),
        ({"ca": "x", "key": "k"}, "option serverKey is given without serverCert"),
        ({"cert": "c", "key": "k"}, "option serverCert needs TLS: give serverCa"),
        ({"token": "pst_abc"}, "option serverToken holds a token"),
    ],
)
def test_options_that_contradict_each_other_are_refused(value: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ServerAccess(**value)


def test_off_loopback_only_over_tls() -> None:
    assert client_address("lake.example:7070", ServerAccess(ca="system")) == "lake.example:7070"
    assert client_address("127.0.0.1:7070", NO_ACCESS) == "127.0.0.1:7070"
    with pytest.raises(ConfigurationError, match="TLS is required there; give the option serverCa"):
        client_address("lake.example:7070", ServerAccess(token="env:X"))
    with pytest.raises(ConfigurationError, match="expected HOST:PORT"):
        client_address("lake.example", ServerAccess(ca="system"))


def test_token_is_read_again_from_its_file_or_variable_for_each_call(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    access = ServerAccess(token=str(file))
    assert call_metadata(access) == (("authorization", "Bearer first"),)
    file.write_text("second")
    assert call_metadata(access) == (("authorization", "Bearer second"),)
    monkeypatch.setenv("MY_TOKEN", " third ")
    assert call_metadata(ServerAccess(token="env:MY_TOKEN")) == (("authorization", "Bearer third"),)
    assert call_metadata(NO_ACCESS) == ()


@pytest.mark.parametrize("content", ["", "\n", "two words", "x\ny", "tökén", "x" * MAX_TOKEN_BYTES + "y", "\x01"])
def test_file_without_a_token_is_an_error_that_does_not_show_it(tmp_path: pathlib.Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises((Unauthenticated, ConfigurationError), match="serverToken") as caught:
        call_metadata(ServerAccess(token=str(file)))
    assert not content.strip() or content.strip() not in str(caught.value)


def test_missing_file_or_variable_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match=r"option serverToken: file .*none' cannot be read: No such file"):
        call_metadata(ServerAccess(token=str(tmp_path / "none")))
    with pytest.raises(Unauthenticated, match="environment variable PENSTOCK_NONE_SUCH holds no token"):
        call_metadata(ServerAccess(token="env:PENSTOCK_NONE_SUCH"))


@pytest.mark.parametrize("option", ["serverCa", "serverCert"])
def test_file_that_is_no_certificate_is_named(tmp_path: pathlib.Path, option: str) -> None:
    good, bad = tmp_path / "good.pem", tmp_path / "bad.pem"
    good.write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    bad.write_text("nothing")
    ca, cert = (bad, good) if option == "serverCa" else (good, bad)
    access = ServerAccess(ca=str(ca), cert=str(cert), key=str(good))
    with pytest.raises(ConfigurationError, match=rf"option {option}: file .*bad.pem' holds no certificate in PEM"):
        EnumeratorClient("127.0.0.1:1", access=access).describe_plan("p")
    with pytest.raises(ConfigurationError, match=rf"option {option}: file .*none' cannot be read"):
        missing = str(tmp_path / "none")
        access = ServerAccess(
            ca=missing if option == "serverCa" else str(good),
            cert=missing if option != "serverCa" else "c",
            key=str(good),
        )
        EnumeratorClient("127.0.0.1:1", access=access).describe_plan("p")
