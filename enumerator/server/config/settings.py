"""The settings of a server, with defaults and ranges. Pure, standard library only.

The same classes define the flags of `penstock serve`, the arguments of a caller in the process, and the keys of the
file (`load` checks types by these fields). A key of the file is the field's name in camelCase. An environment variable
is PENSTOCK_ and the name in upper case. A new field needs a default, a docstring line and a range;
docs/reference/server.md is generated from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from penstock.enumerator.server.config.catalogs import CatalogSettings, check_catalogs
from penstock.enumerator.server.config.fields import BY_FIELDS, Ranges, camel, within
from penstock.enumerator.server.config.services import ServiceSettings
from penstock.enumerator.service_splits.due_services import ServicePolicy
from penstock.kafka.config import checked_settings
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.access import checked_address, is_loopback
from penstock.proto.model.hybrid import KafkaAccess
from penstock.proto.options.kafka import checkpoints_of
from penstock.proto.options.types import ClientSettings
from penstock.table.storage.uris import folder_uri

INSECURE_WORDS: Final = "I know that tokens and rows travel unencrypted"
"""The value of `tls.insecure` that lets a server listen off loopback without TLS."""

Right = Literal["read", "plan", "consume", "write", "admin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """A table that is served, under `[tables.NAME]`. `NAME = "PATH"` under `[tables]` is the short form."""

    __pydantic_config__: ClassVar[dict[str, object]] = BY_FIELDS
    ranges: ClassVar[Ranges] = {"poll_interval_ms": (10, 86_400_000)}

    path: str = field(repr=False)
    """A local path or URI. Set credentials in the environment of the process."""
    poll_interval_ms: int | None = None
    """How often the table is checked for new commits; default: `pollIntervalMs` of the server."""
    kafka: Mapping[str, str | bool | int | float] = field(default_factory=dict, repr=False)
    """Settings of a Kafka client (librdkafka's names) for the topic that fills the table. `${env:NAME}` is replaced by
    the environment variable, `${file:PATH}` by the file's content. Empty: no hybrid read of the table is served."""
    schema_registry_url: str = field(default="", repr=False)
    """The URL of the schema registry of topics in Avro."""
    dead_letter_path: str = field(default="", repr=False)
    """A folder, local or a URI, for records that cannot be decoded; empty: such a record stops the read."""
    kafka_checkpoint: tuple[str, ...] = field(default=(), repr=False)
    """`[ID=]FOLDER`: the checkpoints of the Spark queries that fill the table."""
    services: ServiceSettings | None = None
    """The services of the table that members of a worker group carry out; default: `[services]` of the server."""

    def __post_init__(self) -> None:
        if not self.path:
            raise ConfigurationError("tables: path: got nothing, expected a path or URI")
        self._check_kafka()
        if self.poll_interval_ms is not None:
            within("tables: pollIntervalMs", self.poll_interval_ms, *self.ranges["poll_interval_ms"])

    def _check_kafka(self) -> None:
        access = self.kafka_access
        if access is None:
            for name in ("schema_registry_url", "dead_letter_path", "kafka_checkpoint"):
                if getattr(self, name):
                    raise ConfigurationError(
                        f"tables: {camel(name)} is given without kafka: it applies to the table's topic"
                    )
        else:
            checked_settings(access.client)
            if access.dead_letter:
                folder_uri(access.dead_letter, "tables: deadLetterPath")

    @property
    def kafka_access(self) -> KafkaAccess | None:
        """The access to the table's topic; None: the table has none."""
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
    """TLS of the server, under `[tls]`. A certificate is required off the loopback interface."""

    __pydantic_config__: ClassVar[dict[str, object]] = BY_FIELDS

    cert: str = ""
    """PEM file: the server's certificate, followed by intermediate certificates."""
    key: str = ""
    """PEM file: the private key of `cert`."""
    client_ca: str = ""
    """PEM file of certificate authorities. Clients must present a certificate that one of them signed."""
    allowed_sans: tuple[str, ...] = ("*",)
    """With `clientCa`: shell patterns. A subject alternative name of the client's certificate must match one of
    them."""
    insecure: str = ""
    """`I know that tokens and rows travel unencrypted` lets the server listen off loopback without TLS."""

    def __post_init__(self) -> None:
        if bool(self.cert) != bool(self.key):
            given, missing = ("cert", "key") if self.cert else ("key", "cert")
            raise ConfigurationError(f"tls.{given} is given without tls.{missing}: a certificate needs its key")
        if self.client_ca and not self.cert:
            raise ConfigurationError(
                "tls.clientCa is given without tls.cert and tls.key: it has an effect only with TLS"
            )
        if not self.allowed_sans:
            raise ConfigurationError(
                "tls.allowedSans: got an empty list, which allows no client; omit the key to allow all"
            )
        if self.insecure not in ("", INSECURE_WORDS):
            raise ConfigurationError(
                f"tls.insecure: got {self.insecure[:80]!r}, expected {INSECURE_WORDS!r} or nothing"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRule:
    """An access rule, under `[[acl]]`. A caller has the rights of all rules that match; no right implies another."""

    __pydantic_config__: ClassVar[dict[str, object]] = BY_FIELDS

    principal: str
    """`token:NAME`, `cert:SAN`, or a shell pattern of these names."""
    rights: tuple[Right, ...]
    """The granted rights. docs/reference/proto.md lists the calls that each right allows."""
    tables: tuple[str, ...] = ("*",)
    """Shell patterns of the tables to which the rule applies."""
    groups: tuple[str, ...] = ("*",)
    """Shell patterns of the consumer groups to which the rule applies."""

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
    """The limits of one server, under `[limits]`."""

    __pydantic_config__: ClassVar[dict[str, object]] = BY_FIELDS
    ranges: ClassVar[Ranges] = {
        "request_bytes": (1024, 1 << 30),
        "answer_bytes": (1024, 1 << 30),
        "metadata_bytes": (1024, 1 << 20),
        "calls": (1, 100_000),
        "streams_per_connection": (1, 10_000),
        "rate_per_second": (0, 1_000_000),
        "rate_burst": (1, 1_000_000),
        "connection_age_ms": (100, 86_400_000),
        "connection_grace_ms": (100, 86_400_000),
        "handshake_ms": (100, 600_000),
        "least_ping_ms": (1000, 86_400_000),
        "tables": (1, 1_000_000),
        "open_tables": (1, 1_000_000),
        "shown": (1, 100_000),
        "groups_per_table": (1, 1_000_000),
        "groups_per_principal": (1, 1_000_000),
        "group_tables_per_principal": (1, 1_000_000),
        "service_splits": (1, 100_000),
    }

    request_bytes: int = 4 << 20
    """Maximum size of a request in bytes; a larger one fails with RESOURCE_EXHAUSTED."""
    answer_bytes: int = 64 << 20
    """Maximum size of a response in bytes; a larger one fails with RESOURCE_EXHAUSTED."""
    metadata_bytes: int = 16 << 10
    """Maximum size of a call's metadata in bytes; larger metadata fails with RESOURCE_EXHAUSTED."""
    calls: int = 1000
    """Maximum number of calls in progress or queued; another call fails at once with RESOURCE_EXHAUSTED."""
    streams_per_connection: int = 100
    """Maximum number of calls in progress of one connection; another call fails at once with UNAVAILABLE, which clients
    retry."""
    rate_per_second: float = 5000.0
    """Maximum calls per second of one peer's address; others fail with `OVERLOADED` and RetryInfo. 0: no limit."""
    rate_burst: int = 10_000
    """Calls that one peer's address may make at once after an idle time."""
    connection_age_ms: int = 1_800_000
    """Maximum age of a connection. The server then closes it gracefully, and clients connect again."""
    connection_grace_ms: int = 60_000
    """How long calls in progress on such a connection may then take."""
    handshake_ms: int = 10_000
    """A connection whose handshake takes longer is closed."""
    least_ping_ms: int = 10_000
    """Minimum time between two pings of a client; the third ping that is too early closes the connection."""
    tables: int = 10_000
    """Maximum number of served tables; further tables of catalogs are not served, and `penstock tables list` says how
    many. A catalog may list as many."""
    open_tables: int = 2_000
    """Maximum number of tables whose commits are cached; the least recently used table is read again from storage."""
    shown: int = 5_000
    """Maximum number of groups, and of tables, that the metrics, the page and the rates of `penstock top` have. Beyond
    200 of them each has a shorter history, so that the memory does not grow."""
    groups_per_table: int = 1_000
    """Maximum number of consumer groups of one table; a reader that would create another gets `TOO_MANY_GROUPS`."""
    groups_per_principal: int = 1_000
    """Maximum number of consumer groups, over all tables, that one authenticated principal created; a reader that would
    create another gets `TOO_MANY_GROUPS`."""
    group_tables_per_principal: int = 10_000
    """Maximum number of tables of all groups over tables that one authenticated principal created; a table counts once
    for each group. A new group with more is `TOO_MANY_GROUPS`; a table that comes later is an error of that table."""
    service_splits: int = 100
    """Maximum number of splits of table services that members of a worker group have at a time, of all tables."""

    def __post_init__(self) -> None:
        for name, (least, most) in self.ranges.items():
            within(f"limits.{camel(name)}", getattr(self, name), least, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One server: the keys at the top of the file."""

    __pydantic_config__: ClassVar[dict[str, object]] = BY_FIELDS
    ranges: ClassVar[Ranges] = {
        "poll_interval_ms": (10, 86_400_000),
        "hollow_after_ms": (60_000, 365 * 86_400_000),
        "lease_ms": (1_000, 3_600_000),
        "drain_ms": (0, 600_000),
        "grace_ms": (0, 3_600_000),
        "tokens_grace_ms": (0, 86_400_000),
        "group_expiry_ms": (60_000, 10 * 365 * 86_400_000),
        "services_interval_ms": (10, 86_400_000),
        "services_return_ms": (0, 86_400_000),
    }

    tables: Mapping[str, TableSettings] = field(default_factory=dict)
    """The tables that are served, by name. Flags add to the file."""
    catalog: Mapping[str, CatalogSettings] = field(default_factory=dict)
    """Catalogs whose tables are served, by name: folders, files and Hive Metastores."""
    services: ServiceSettings | None = None
    """The services of every served table without its own, those of catalogs too. Not set: none."""
    services_interval_ms: int = 10_000
    """How often the timeline of a table with services is looked at for those that are due."""
    services_return_ms: int = 600_000
    """How long after a start of the server cleans and archivals of `services` wait: streams hold them once they have
    called again. Groups are stored, and hold them at once."""
    add_from: tuple[str, ...] | None = None
    """Shell patterns of the paths at which `penstock tables add` may add tables; an empty list: nowhere. Default:
    everywhere, but with `acl` only for callers with the right `admin` on all tables, because the path may be one of
    another table."""
    listen: str = "127.0.0.1:0"
    """HOST:PORT; with port 0 the system chooses the port. Off loopback `tls` is required."""
    state: str = ""
    """Folder of the service's state. Empty: the state is in memory and is lost when the process ends."""
    takeover: bool = False
    """Take the state over from a server that still holds it, instead of waiting until that server ends."""
    tls: TlsSettings = field(default_factory=TlsSettings)
    """TLS of the server."""
    tokens: str = ""
    """File of tokens (`penstock token new`); empty: no token is required."""
    tokens_grace_ms: int = 60_000
    """How long the previous tokens stay valid when the file of tokens changed and cannot be read or parsed. After that
    no token is valid."""
    acl: tuple[AclRule, ...] = ()
    """The access rules; required if `tokens` or `tls.clientCa` is set."""
    limits: LimitSettings = field(default_factory=LimitSettings)
    """Limits on requests, calls and consumer groups."""
    metrics_listen: str = ""
    """HOST:PORT of the metrics and the status page; empty: neither is served. The flag takes a port on loopback."""
    health_listen: str = ""
    """HOST:PORT that serves only the health service, without TLS and authentication, for probes without certificates.
    Empty: no such port."""
    reflection: bool = False
    """Enables gRPC reflection."""
    poll_interval_ms: int = 5_000
    """How often tables are checked for new commits. The flag takes a duration such as `5s`."""
    hollow_after_ms: int | None = None
    """Timeline layout 1: a pending instant whose file is older is treated as abandoned, with a warning. If it completes
    later, the table's groups stop with LATE_INSTANT. Not set: never."""
    lease_ms: int = 30_000
    """How long a silent reader of a group keeps its splits. The flag takes a duration such as `30s`."""
    group_expiry_ms: int | None = None
    """A consumer group without readers for this time is deleted, with its position. The time starts again when the
    server starts. Not set: never, because rows after a lost position may never be read."""
    drain_ms: int = 0
    """At shutdown: how long calls are accepted after the health service reports NOT_SERVING, so that balancers can
    remove the server."""
    grace_ms: int = 10_000
    """At shutdown: how long calls in progress may take after the drain."""

    def __post_init__(self) -> None:
        for name, (least, most) in self.ranges.items():
            value = getattr(self, name)
            if value is not None:
                within(camel(name), value, least, most)
        for name in ("listen", "metrics_listen", "health_listen"):
            value = getattr(self, name)
            try:
                if value:
                    checked_address(value, any_port=True)
            except ConfigurationError as error:
                raise ConfigurationError(f"{camel(name)}: {error}") from None
        if not self.listen:
            raise ConfigurationError("listen: got nothing, expected HOST:PORT")
        check_catalogs(self.catalog)
        self._check_access()

    def _check_access(self) -> None:
        if not is_loopback(self.listen) and not (self.tls.cert or self.tls.insecure):
            raise ConfigurationError(
                f"listen: address {self.listen!r} is not on the loopback interface: TLS is required there; set "
                f"tls.cert and tls.key (PEM files), or tls.insecure = {INSECURE_WORDS!r}"
            )
        if self.acl and not self.authenticates:
            raise ConfigurationError("acl: rules are given, but callers are not identified: set tokens or tls.clientCa")
        if self.authenticates and not self.acl:
            raise ConfigurationError(
                "acl: no rule is given, so nobody may do anything; to allow every authenticated caller all calls: "
                '[[acl]] principal = "*" rights = ["read", "plan", "consume", "write", "admin"]'
            )

    @property
    def topics(self) -> Mapping[str, KafkaAccess]:
        """The access to the Kafka topics, by table. Tables without a topic are omitted."""
        access_by_table = {name: table.kafka_access for name, table in self.tables.items()}
        return {name: access for name, access in access_by_table.items() if access is not None}

    def service_policy(self, table: str) -> ServicePolicy | None:
        """The policy of the services of a table; None: they are not handed out."""
        own = self.tables[table].services if table in self.tables else None
        services = own or self.services
        return None if services is None else services.policy

    @property
    def authenticates(self) -> bool:
        """Whether callers must authenticate."""
        return bool(self.tokens or self.tls.client_ca)
