"""Settings of Kafka clients: what a user gives (`kafka.*`), what exact reading fixes, what is filled in. Pure.

The reading client never lets the broker or a group decide where it stands: offsets are given, nothing is committed, a
position that is not there is an error (`auto.offset.reset=error`). Values may be secrets: no text shows one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import ClientConfig

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

MAX_SETTINGS: Final = 200
MAX_NAME_CHARS: Final = 100
MAX_VALUE_CHARS: Final = 1 << 16
"""Certificates stand in settings as text."""

FORCED: Final[Mapping[str, str]] = {
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "error",
    "check.crcs": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
}
"""What a reader's client must have for exact reading."""

_WHY: Final[Mapping[str, str]] = {
    "allow.auto.create.topics": "a topic that is not there is an error",
    "auto.offset.reset": "reading starts at the offsets that the table's commits tell; give `kafkaStartingOffsets`",
    "check.crcs": "damaged records are an error",
    "enable.auto.commit": "positions are kept by Penstock, not by a consumer group",
    "enable.auto.offset.store": "positions are kept by Penstock, not by a consumer group",
    "enable.partition.eof": "the end of a range is told by it",
}

_OTHER_NAMES: Final[Mapping[str, str]] = {
    "auto.commit.enable": "enable.auto.commit",
    "metadata.broker.list": "bootstrap.servers",
}
"""The client's second names of settings that matter here."""

_EITHER: Final[Mapping[str, str]] = {
    "client.id": "penstock",
    "enable.metrics.push": "false",
    "log_level": "2",
    "reconnect.backoff.max.ms": "1000",
}
"""For every client, unless the user says otherwise. What its log would tell comes as errors."""

_READING: Final[Mapping[str, str]] = {
    "fetch.max.bytes": str(16 << 20),
    "fetch.queue.backoff.ms": "10",
    "fetch.wait.max.ms": "100",
    "queued.max.messages.kbytes": str(16 << 10),
}
"""For a reader, unless the user says otherwise: 16 MiB wait in the client, at most as much is on its way. By its own
rule the client fetches again only a second after what waits was read; it waits 0.1 s at the log's end, not 0.5."""

_ONLY_READING: Final = frozenset({*FORCED, *_READING, "isolation.level", "group.id", "max.partition.fetch.bytes"})

_NAME: Final = re.compile(r"[a-z][a-z0-9]*([._][a-z0-9]+)*")
_SECRET: Final = re.compile(r"password|secret|token|username|credential|\.key|\.pem|oauthbearer|jaas")
_SHORTEST_SECRET_CHARS: Final = 3
_TRUE, _FALSE = ("true", "1", "t"), ("false", "0", "f")


def checked_settings(client: ClientConfig) -> dict[str, str]:
    """The user's settings by name. ConfigurationError for names and sizes that no setting has, for a setting that
    contradicts a forced one, for an unknown isolation level, and where `bootstrap.servers` is missing."""
    if len(client) > MAX_SETTINGS:
        raise ConfigurationError(f"settings of the Kafka client: got {len(client)}, expected at most {MAX_SETTINGS}")
    settings: dict[str, str] = {}
    for given, value in client:
        _check_text(given, value)
        name = _OTHER_NAMES.get(given, given)
        if name in settings:
            raise ConfigurationError(f"the Kafka client's setting kafka.{name} is given twice; give it once")
        settings[name] = value
        forced = FORCED.get(name)
        if forced is not None and _plain(value) != forced:
            raise ConfigurationError(
                f"the Kafka client's setting kafka.{given} must be {forced}: {_WHY[name]}; leave it out"
            )
    if not settings.get("bootstrap.servers", "").strip():
        raise ConfigurationError("a topic is read from brokers: give kafka.bootstrap.servers (host:port, …)")
    isolation_level(settings)
    return settings


def isolation_level(settings: Mapping[str, str]) -> str:
    """READ_COMMITTED, or what the user says: the records of aborted transactions are records then, too."""
    level = settings.get("isolation.level", READ_COMMITTED)
    if level not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise ConfigurationError(f"kafka.isolation.level: expected {READ_COMMITTED} or {READ_UNCOMMITTED}")
    return level


def consumer_config(client: ClientConfig, group_id: str) -> dict[str, str]:
    """Settings of a client that reads a range. `group_id` is needed by syntax only; the user's own comes first."""
    settings = checked_settings(client)
    level = {"isolation.level": isolation_level(settings), "group.id": group_id}
    return {**_EITHER, **_READING, **level, **settings, **FORCED}


def admin_config(client: ClientConfig) -> dict[str, str]:
    """Settings of a client that asks what a topic is now: without those that are a reader's only."""
    settings = checked_settings(client)
    return {**_EITHER, **{name: value for name, value in settings.items() if name not in _ONLY_READING}}


def redacted(text: str, settings: Mapping[str, str]) -> str:
    """The text with every value of a setting that may be a secret replaced by the setting's name."""
    for name, value in sorted(settings.items(), key=lambda setting: -len(setting[1])):
        if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET_CHARS:
            text = text.replace(value, f"<kafka.{name}>")
    return text


def rejected_settings(text: str, settings: Mapping[str, str]) -> ConfigurationError:
    """What a client said when it refused its settings, as an error that names the setting and shows no value."""
    named = [name for name in settings if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text)]
    if "JAAS" in text:
        named = ["sasl.jaas.config"]
    if not named:
        return ConfigurationError(f"the Kafka client refuses its settings kafka.*: got {', '.join(sorted(settings))}")
    which = ", ".join(f"kafka.{name}" for name in sorted(named))
    hint = "no such setting" if "No such configuration property" in text else "its value does not do"
    return ConfigurationError(
        f"the Kafka client (librdkafka) refuses {which}: {hint}; "
        "settings are named as in librdkafka's CONFIGURATION.md, not all as in Java"
    )


def _check_text(name: str, value: str) -> None:
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name):
        shown = name[:MAX_NAME_CHARS]
        raise ConfigurationError(f"a setting of the Kafka client is named {shown!r}: expected letters, digits and dots")
    if not isinstance(value, str):
        raise ConfigurationError(f"kafka.{name}: expected text")
    if len(value) > MAX_VALUE_CHARS or "\0" in value:
        raise ConfigurationError(
            f"kafka.{name}: got {len(value)} characters, expected at most {MAX_VALUE_CHARS}, and no NUL"
        )


def _plain(value: str) -> str:
    folded = value.strip().lower()
    return "true" if folded in _TRUE else "false" if folded in _FALSE else folded
