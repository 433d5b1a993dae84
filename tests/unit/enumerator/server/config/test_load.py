"""The configuration file: flags before environment before file; every error names key, place, and the nearest key."""

from __future__ import annotations

import pathlib
import re
import sys

import pytest

from penstock.enumerator.server.config.load import load_settings, misspelt_variables
from penstock.enumerator.server.config.settings import INSECURE_WORDS, AclRule, Settings, TableSettings
from penstock.proto.errors import ConfigurationError

FULL = f"""
listen = "0.0.0.0:7070"
state = "state"
takeover = true
tokens = "tokens"
metricsListen = "127.0.0.1:9100"
reflection = true
pollIntervalMs = 1000
leaseMs = 20000
drainMs = 5000
graceMs = 100

[tables]
orders = "s3://lake/orders"

[tables.trips]
path = "trips"
pollIntervalMs = 250

[tls]
cert = "server.pem"
key = "server.key"
clientCa = "ca.pem"
allowedSans = ["*.lake.example"]
insecure = "{INSECURE_WORDS}"

[[acl]]
principal = "token:spark-*"
rights = ["read", "plan"]
tables = ["orders"]

[limits]
ratePerSecond = 10.5
streamsPerConnection = 7
"""


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    """The path of the configuration file."""
    return tmp_path / "penstock.toml"


def loaded(file: pathlib.Path, text: str, environment: dict[str, str] | None = None, **flags: object) -> Settings:
    file.write_text(text)
    return load_settings(str(file), environment, flags)


def test_file_may_have_every_key(file: pathlib.Path) -> None:
    result = loaded(file, FULL)
    assert result.tables == {
        "orders": TableSettings(path="s3://lake/orders"),
        "trips": TableSettings(path="trips", poll_interval_ms=250),
    }
    assert (result.listen, result.state, result.takeover, result.tokens) == ("0.0.0.0:7070", "state", True, "tokens")
    assert (result.metrics_listen, result.reflection) == ("127.0.0.1:9100", True)
    assert (result.poll_interval_ms, result.lease_ms, result.drain_ms, result.grace_ms) == (1000, 20000, 5000, 100)
    assert (result.tls.cert, result.tls.client_ca, result.tls.allowed_sans) == (
        "server.pem",
        "ca.pem",
        ("*.lake.example",),
    )
    assert result.acl == (AclRule(principal="token:spark-*", rights=("read", "plan"), tables=("orders",)),)
    assert (result.limits.rate_per_second, result.limits.streams_per_connection) == (10.5, 7)
    assert result.limits.request_bytes == 4 << 20


def test_flags_before_environment_before_file_before_defaults(file: pathlib.Path) -> None:
    text = 'leaseMs = 5000\npollIntervalMs = 5000\ngraceMs = 7\n[tables]\na = "x"\n'
    environment = {"PENSTOCK_LEASE_MS": "6000", "PENSTOCK_POLL_INTERVAL_MS": "6000", "PENSTOCK_LIMITS_CALLS": "9"}
    result = loaded(file, text, environment, lease_ms=7000, tables={"b": "y"}, state=None)
    assert (result.lease_ms, result.poll_interval_ms, result.grace_ms, result.drain_ms) == (7000, 6000, 7, 0)
    assert result.limits.calls == 9
    assert {name: table.path for name, table in result.tables.items()} == {"a": "x", "b": "y"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('lisen = "x"', r"{file}: unknown key 'lisen': did you mean listen\?"),
        ('[tls]\ncerts = "x"', r"{file}: unknown key 'tls.certs': did you mean cert\?"),
        ("[limits]\nratePerSecnd = 1", r"{file}: unknown key 'limits.ratePerSecnd': did you mean ratePerSecond\?"),
        ('[tables.a]\npath = "x"\npollInterval = 1', r"unknown key 'tables.a.pollInterval': did you mean pollInterv"),
        ('[[acl]]\nprinciple = "*"\nrights = []', r"unknown key 'acl.0.principle': did you mean principal\?"),
        (
            "zzz = 1",
            r"{file}: unknown key 'zzz': expected one of tables, catalog, services, services",
        ),
        ('[limits]\ncalls = "many"', r"{file}: key 'limits.calls': got 'many', expected: a valid integer"),
        ("[limits]\ncalls = 0", r"{file}: limits.calls: got 0, expected 1 to 100000"),
        ("leaseMs = 5", r"{file}: leaseMs: got 5, expected 1000 to"),
        (
            '[[acl]]\nprincipal = "*"\nrights = ["raed"]',
            r"'acl.0.rights.0': got 'raed', expected: 'read', 'plan', 'consume', 'write' or 'adm",
        ),
        ('[[acl]]\nprincipal = "spark"\nrights = ["read"]', r"acl: principal: got 'spark', expected token:NAME"),
        ("[tables.a]\npollIntervalMs = 100", r"{file}: key 'tables.a.path' is missing"),
        ('[tables]\na = ""', r"{file}: tables: path: got nothing"),
        ("tables = 5", r"{file}: key 'tables': "),
        ('listen = "nowhere"', r"{file}: listen: address 'nowhere': expected HOST:PORT"),
        (
            'listen = "0.0.0.0:1"',
            r"{file}: listen: address '0.0.0.0:1' is not on the loopback .*: TLS is required there",
        ),
        ('[tls]\ncert = "x"', r"{file}: tls.cert is given without tls.key"),
        ('[tls]\nclientCa = "x"', r"{file}: tls.clientCa is given without tls.cert"),
        ('[tls]\ninsecure = "yes"', r"{file}: tls.insecure: got 'yes', expected 'I know that"),
        ('tokens = "t"', r"{file}: acl: no rule is given, so nobody may do anything"),
        (
            '[[acl]]\nprincipal = "*"\nrights = ["read"]',
            r"{file}: acl: rules are given, but callers are not identified",
        ),
        ("listen =", r"configuration file '{file}' is not TOML: Invalid value"),
    ],
)
def test_error_names_key_and_file(file: pathlib.Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("{file}", re.escape(str(file)))):
        loaded(file, text)


def test_error_of_a_variable_names_it(file: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^environment variable PENSTOCK_LEASE_MS: key 'leaseMs': got 'x'"):
        loaded(file, "", {"PENSTOCK_LEASE_MS": "x"})


def test_optional_value_has_a_variable_too(file: pathlib.Path) -> None:
    assert loaded(file, "", {}).hollow_after_ms is None
    assert loaded(file, "", {"PENSTOCK_HOLLOW_AFTER_MS": "3600000"}).hollow_after_ms == 3_600_000


def test_misspelt_variable_is_reported() -> None:
    environment = {
        "PENSTOCK_LEASE": "1",
        "PENSTOCK_TLS_CRT": "x",
        "PENSTOCK_SERVER_CA": "x",
        "PENSTOCK_TOKENS": "x",
        "HOME": "x",
    }
    assert misspelt_variables(environment) == [
        "environment variable PENSTOCK_LEASE is not read: did you mean PENSTOCK_LEASE_MS?",
        "environment variable PENSTOCK_TLS_CRT is not read: did you mean PENSTOCK_TLS_CERT?",
    ]


def test_uri_of_a_table_is_in_no_error_and_no_repr(file: pathlib.Path) -> None:
    text = '[tables]\na = "s3://key:hush@b/t"\n[tables.b]\npath = ["s3://key:hush@b/t"]'
    with pytest.raises(ConfigurationError, match=r"tables\.b\.path") as caught:
        loaded(file, text)
    assert "hush" not in str(caught.value)
    assert "hush" not in repr(loaded(file, '[tables]\na = "s3://key:hush@b/t"'))


def test_no_file_and_no_variable_need_no_library(monkeypatch: pytest.MonkeyPatch, file: pathlib.Path) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    result = load_settings(
        None, {"PENSTOCK_SERVER": "127.0.0.1:1"}, {"tables": {"a": "x"}, "lease_ms": 9000, "state": None}
    )
    assert (result.tables, result.lease_ms) == ({"a": TableSettings(path="x")}, 9000)
    with pytest.raises(ConfigurationError, match=r'needs the extra `server`: pip install "penstock\[server\]"'):
        loaded(file, FULL)


def test_missing_file_is_an_error_with_its_path(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match=r"configuration file .*none.toml' cannot be read: No such file"):
        load_settings(str(tmp_path / "none.toml"))


KAFKA = """
[tables.orders]
path = "x"
schemaRegistryUrl = "http://user:pa55@registry"
deadLetterPath = "/letters"
kafkaCheckpoint = ["a=/one", "b=/two"]

[tables.orders.kafka]
bootstrap.servers = "h:9092"
"sasl.password" = "${file:/etc/penstock/password}"
SASL.Username = "pa55"
socket.keepalive.enable = true
socket.timeout.ms = 1000

[tables.trips]
path = "y"
"""


class TestKafka:
    """Settings of the topic of a table."""

    def test_settings_of_the_client_in_either_spelling(self, file: pathlib.Path) -> None:
        result = loaded(file, KAFKA)
        assert list(result.topics) == ["orders"]
        access = result.topics["orders"]
        assert access.client == (
            ("bootstrap.servers", "h:9092"),
            ("sasl.password", "${file:/etc/penstock/password}"),
            ("sasl.username", "pa55"),
            ("socket.keepalive.enable", "true"),
            ("socket.timeout.ms", "1000"),
        )
        assert (access.registry_url, access.dead_letter) == ("http://user:pa55@registry", "/letters")
        assert access.checkpoints == (("a", "/one"), ("b", "/two"))

    def test_secrets_are_in_no_error_and_no_repr(self, file: pathlib.Path) -> None:
        result = loaded(file, KAFKA)
        for text in (repr(result), str(result.tables), repr(result.topics)):
            assert "pa55" not in text
            assert "letters" not in text

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('"sasl.password" = "pa55"', r"give kafka\.bootstrap\.servers"),
            ('bootstrap.servers = ""', r"give kafka\.bootstrap\.servers"),
            ('bootstrap.servers = ["pa55"]', r"key 'tables\.a\.kafka\.bootstrap\.servers"),
            ('bootstrap.servers = "h"\nsasl.password = 1979-05-27', r"key 'tables\.a\.kafka\.sasl\.password"),
            ('bootstrap.servers = "h"\n"a b" = "pa55"', r"got a setting named 'a b'"),
        ],
    )
    def test_unknown_client_setting_is_refused(self, file: pathlib.Path, text: str, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message) as error:
            loaded(file, f'[tables.a]\npath = "x"\n[tables.a.kafka]\n{text}\n')
        assert "pa55" not in str(error.value)
        assert "1979" not in str(error.value)

    @pytest.mark.parametrize("text", ['schemaRegistryUrl = "r"', 'deadLetterPath = "d"', 'kafkaCheckpoint = ["c"]'])
    def test_topic_settings_need_a_topic(self, file: pathlib.Path, text: str) -> None:
        with pytest.raises(ConfigurationError, match=r"is given without kafka: it applies to the table's topic"):
            loaded(file, f'[tables.a]\npath = "x"\n{text}\n')

    def test_checkpoints_have_the_form_of_the_option(self, file: pathlib.Path) -> None:
        text = '[tables.a]\npath = "x"\nkafkaCheckpoint = ["/a", "/b"]\n[tables.a.kafka]\nbootstrap.servers = "h"\n'
        with pytest.raises(ConfigurationError, match="kafkaCheckpoint: with several, each needs the identifier"):
            loaded(file, text)
