"""What a server is told: values with their defaults and ranges. Pure, standard library only.

One definition serves the flags of `penstock serve`, a caller in the process, and the file (`config` checks types by
these very fields). A key of the file is the field's name in camelCase, an environment variable PENSTOCK_ and the name
in upper case. What may be added: a field with a default, its range, its row in docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from penstock.kafka.config import checked_settings
from penstock.proto.addresses import checked_address, is_loopback
from penstock.proto.errors import ConfigurationError
from penstock.proto.hybrid import KafkaAccess
from penstock.proto.option_kafka import checkpoints_of
from penstock.proto.option_types import Settings as ClientSettings

INSECURE_WORDS: Final = "I know that tokens and rows travel unencrypted"
"""What `tls.insecure` must say before a server listens off loopback without TLS."""

Right = Literal["read", "plan", "admin"]


def camel(name: str) -> str:
    """The key of a field in the file."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


_BY_FIELDS: Final[dict[str, object]] = {"extra": "forbid", "alias_generator": camel}
"""What pydantic is told about each class: no key but the fields, in camelCase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """A table that is served. `path` is a local path or URI; credentials belong into the process's environment."""

    __pydantic_config__: ClassVar[dict[str, object]] = _BY_FIELDS

    path: str = field(repr=False)
    poll_interval_ms: int | None = None
    """How often it is looked at; None: as `Settings.poll_interval_ms`."""
    kafka: Mapping[str, str | bool | int | float] = field(default_factory=dict, repr=False)
    """Settings of a Kafka client (librdkafka's names) for the topic that fills the table; `${env:NAME}` and
    `${file:PATH}` stand for what they name. Empty: no hybrid read of the table is served."""
    schema_registry_url: str = field(default="", repr=False)
    dead_letter_path: str = field(default="", repr=False)
    kafka_checkpoint: tuple[str, ...] = field(default=(), repr=False)
    """`[ID=]FOLDER` of the checkpoints of the Spark queries that fill the table."""

    def __post_init__(self) -> None:
        if not self.path:
            raise ConfigurationError("tables: path: got nothing, expected a path or URI")
        self._check_kafka()
        if self.poll_interval_ms is not None:
            _within("tables: pollIntervalMs", self.poll_interval_ms, 10, 86_400_000)

    def _check_kafka(self) -> None:
        access = self.kafka_access
        if access is None:
            for name in ("schema_registry_url", "dead_letter_path", "kafka_checkpoint"):
                if getattr(self, name):
                    raise ConfigurationError(f"tables: {camel(name)} is given without kafka: it is about its topic")
        else:
            checked_settings(access.client)
            if "://" in access.dead_letter:
                raise ConfigurationError("tables: deadLetterPath: got a URI, expected a local folder")

    @property
    def kafka_access(self) -> KafkaAccess | None:
        """How the server reaches the table's topic; None: not at all."""
        if not self.kafka:
            return None
        return KafkaAccess(
            client=ClientSettings().parse("tables: kafka", self.kafka),
            registry_url=self.schema_registry_url,
            dead_letter=self.dead_letter_path,
            checkpoints=checkpoints_of("tables: kafkaCheckpoint", self.kafka_checkpoint),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """PEM files. With `client_ca` a client must show a certificate that it signed, and one of whose subject alternative
    names matches one of `allowed_sans` (shell patterns)."""

    __pydantic_config__: ClassVar[dict[str, object]] = _BY_FIELDS

    cert: str = ""
    key: str = ""
    client_ca: str = ""
    allowed_sans: tuple[str, ...] = ("*",)
    insecure: str = ""

    def __post_init__(self) -> None:
        if bool(self.cert) != bool(self.key):
            given, missing = ("cert", "key") if self.cert else ("key", "cert")
            raise ConfigurationError(f"tls.{given} is given without tls.{missing}: a certificate needs its key")
        if self.client_ca and not self.cert:
            raise ConfigurationError("tls.clientCa is given without tls.cert and tls.key: it counts over TLS alone")
        if not self.allowed_sans:
            raise ConfigurationError("tls.allowedSans: got an empty list, which lets nobody in; leave it out for all")
        if self.insecure not in ("", INSECURE_WORDS):
            raise ConfigurationError(
                f"tls.insecure: got {self.insecure[:80]!r}, expected {INSECURE_WORDS!r} or nothing"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRule:
    """Who may do what. `principal` is `token:NAME`, `cert:SAN`, or a shell pattern of those; likewise `tables` and
    `groups`. Rights are the sum of all rules that match; none implies another."""

    __pydantic_config__: ClassVar[dict[str, object]] = _BY_FIELDS

    principal: str
    rights: tuple[Right, ...]
    tables: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ("*",)

    def __post_init__(self) -> None:
        for name, value in (("principal", self.principal), ("rights", self.rights), ("tables", self.tables)):
            if not value:
                raise ConfigurationError(f"acl: {name}: got nothing, expected at least one")
        if not self.principal.startswith(("token:", "cert:", "*")):
            raise ConfigurationError(
                f"acl: principal: got {self.principal[:80]!r}, expected token:NAME, cert:SAN or a pattern such as *"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """What one server takes. `rate_per_second` and `rate_burst` are calls of one peer's address; 0: no limit."""

    __pydantic_config__: ClassVar[dict[str, object]] = _BY_FIELDS

    request_bytes: int = 4 << 20
    answer_bytes: int = 64 << 20
    metadata_bytes: int = 16 << 10
    calls: int = 1000
    streams_per_connection: int = 100
    rate_per_second: float = 5000.0
    rate_burst: int = 10_000
    connection_age_ms: int = 1_800_000
    connection_grace_ms: int = 60_000
    handshake_ms: int = 10_000
    least_ping_ms: int = 10_000

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("requestBytes", self.request_bytes, 1024, 1 << 30),
            ("answerBytes", self.answer_bytes, 1024, 1 << 30),
            ("metadataBytes", self.metadata_bytes, 1024, 1 << 20),
            ("calls", self.calls, 1, 100_000),
            ("streamsPerConnection", self.streams_per_connection, 1, 10_000),
            ("ratePerSecond", self.rate_per_second, 0, 1_000_000),
            ("rateBurst", self.rate_burst, 1, 1_000_000),
            ("connectionAgeMs", self.connection_age_ms, 100, 86_400_000),
            ("connectionGraceMs", self.connection_grace_ms, 100, 86_400_000),
            ("handshakeMs", self.handshake_ms, 100, 600_000),
            ("leastPingMs", self.least_ping_ms, 1000, 86_400_000),
        ):
            _within(f"limits.{name}", value, least, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One server. `state` '': the state is kept in memory. `metrics_listen` '': no metrics. `health_listen`: where the
    health service alone is asked without TLS, as Kubernetes' probes must; '': nowhere. `drain_ms`: how long calls
    are still taken after the health service said NOT_SERVING, for a balancer to notice; `grace_ms`: how long those
    under way may then take. `hollow_after_ms`: see `watch.advance.advance`; None never passes a pending instant."""

    __pydantic_config__: ClassVar[dict[str, object]] = _BY_FIELDS

    tables: Mapping[str, TableSettings] = field(default_factory=dict)
    listen: str = "127.0.0.1:0"
    state: str = ""
    takeover: bool = False
    tls: TlsSettings = field(default_factory=TlsSettings)
    tokens: str = ""
    acl: tuple[AclRule, ...] = ()
    limits: LimitSettings = field(default_factory=LimitSettings)
    metrics_listen: str = ""
    health_listen: str = ""
    reflection: bool = False
    poll_interval_ms: int = 5_000
    hollow_after_ms: int | None = None
    lease_ms: int = 30_000
    drain_ms: int = 0
    grace_ms: int = 10_000

    def __post_init__(self) -> None:
        _within("pollIntervalMs", self.poll_interval_ms, 10, 86_400_000)
        if self.hollow_after_ms is not None:
            _within("hollowAfterMs", self.hollow_after_ms, 60_000, 365 * 86_400_000)
        _within("leaseMs", self.lease_ms, 1_000, 3_600_000)
        _within("drainMs", self.drain_ms, 0, 600_000)
        _within("graceMs", self.grace_ms, 0, 3_600_000)
        for name in ("listen", "metrics_listen", "health_listen"):
            value = getattr(self, name)
            try:
                if value:
                    checked_address(value, any_port=True)
            except ConfigurationError as error:
                raise ConfigurationError(f"{camel(name)}: {error}") from None
        if not self.listen:
            raise ConfigurationError("listen: got nothing, expected HOST:PORT")
        self._check_access()

    def _check_access(self) -> None:
        if not is_loopback(self.listen) and not (self.tls.cert or self.tls.insecure):
            raise ConfigurationError(
                f"listen: address {self.listen!r} is not on the loopback interface: TLS is required there; set "
                f"tls.cert and tls.key (PEM files), or tls.insecure = {INSECURE_WORDS!r}"
            )
        if self.acl and not self.authenticates:
            raise ConfigurationError("acl: rules are given, but nobody is told apart: set tokens or tls.clientCa")
        if self.authenticates and not self.acl:
            raise ConfigurationError(
                "acl: no rule is given, so nobody may do anything; to let everybody who is known do all: "
                '[[acl]] principal = "*" rights = ["read", "plan", "admin"]'
            )

    @property
    def topics(self) -> Mapping[str, KafkaAccess]:
        """How the topics of tables are reached, by table; those without one are left out."""
        found = {name: table.kafka_access for name, table in self.tables.items()}
        return {name: access for name, access in found.items() if access is not None}

    @property
    def authenticates(self) -> bool:
        """Whether callers must show who they are."""
        return bool(self.tokens or self.tls.client_ca)


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ConfigurationError(f"{name}: got {value:g}, expected {least:g} to {most:g}")
