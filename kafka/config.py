"""Settings of Kafka clients: the user's (`kafka.*`), those that exact reading requires, and defaults. Pure.

A consumer's position never depends on the broker or a group: offsets are assigned, nothing is committed, and an offset
that does not exist is an error (`auto.offset.reset=error`). Values may be secrets: no text shows one.
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
"""The longest value; settings may contain certificates as text."""

FORCED: Final[Mapping[str, str]] = {
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "error",
    "check.crcs": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
}
"""The settings that exact reading requires."""

_WHY: Final[Mapping[str, str]] = {
    "allow.auto.create.topics": "a missing topic is an error",
    "auto.offset.reset": "reading starts at the offsets of the table's commits; give `kafkaStartingOffsets`",
    "check.crcs": "damaged records are an error",
    "enable.auto.commit": "positions are kept by Penstock, not by a consumer group",
    "enable.auto.offset.store": "positions are kept by Penstock, not by a consumer group",
    "enable.partition.eof": "the end of a range is detected by it",
}

_OTHER_NAMES: Final[Mapping[str, str]] = {
    "auto.commit.enable": "enable.auto.commit",
    "metadata.broker.list": "bootstrap.servers",
}
"""The client's aliases of settings that matter here."""

_DEFAULTS: Final[Mapping[str, str]] = {
    "client.id": "penstock",
    "enable.metrics.push": "false",
    "log_level": "2",
    "reconnect.backoff.max.ms": "1000",
}
"""The defaults of every client. Its log is off, because errors are reported by callback."""

_CONSUMER_DEFAULTS: Final[Mapping[str, str]] = {
    "fetch.max.bytes": str(16 << 20),
    "fetch.queue.backoff.ms": "10",
    "fetch.wait.max.ms": "100",
    "queued.max.messages.kbytes": str(16 << 10),
}
"""The defaults of a consumer: 16 MiB in the client's queue, and at most as much in flight. A full queue delays the next
fetch by 10 ms instead of the client's 1 s, and a fetch waits 0.1 s at the end of the log instead of 0.5 s."""

_CONSUMER_ONLY: Final = frozenset(
    {*FORCED, *_CONSUMER_DEFAULTS, "isolation.level", "group.id", "max.partition.fetch.bytes"}
)

_NAME: Final = re.compile(r"[a-z][a-z0-9]*([._][a-z0-9]+)*")
_SECRET: Final = re.compile(r"password|secret|token|username|credential|\.key|\.pem|oauthbearer|jaas")
_SHORTEST_SECRET_CHARS: Final = 3
_TRUE, _FALSE = ("true", "1", "t"), ("false", "0", "f")


def checked_settings(client: ClientConfig) -> dict[str, str]:
    """The user's settings by name.

    ConfigurationError for invalid names and sizes, a setting that contradicts a required one, an unknown isolation
    level, and a missing `bootstrap.servers`.
    """
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
    """The isolation level, READ_COMMITTED by default. READ_UNCOMMITTED also reads records of aborted transactions."""
    level = settings.get("isolation.level", READ_COMMITTED)
    if level not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise ConfigurationError(f"kafka.isolation.level: expected {READ_COMMITTED} or {READ_UNCOMMITTED}")
    return level


def consumer_config(client: ClientConfig, group_id: str) -> dict[str, str]:
    """The settings of a consumer. The client requires a `group_id` but does not use it; the user's own has
    precedence."""
    settings = checked_settings(client)
    level = {"isolation.level": isolation_level(settings), "group.id": group_id}
    return {**_DEFAULTS, **_CONSUMER_DEFAULTS, **level, **settings, **FORCED}


def admin_config(client: ClientConfig) -> dict[str, str]:
    """The settings of an admin client: without those of consumers only."""
    settings = checked_settings(client)
    return {**_DEFAULTS, **{name: value for name, value in settings.items() if name not in _CONSUMER_ONLY}}


def redacted(text: str, settings: Mapping[str, str]) -> str:
    """The text with each value of a setting that may be secret replaced by the setting's name."""
    for name, value in sorted(settings.items(), key=lambda setting: -len(setting[1])):
        if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET_CHARS:
            text = text.replace(value, f"<kafka.{name}>")
    return text


def rejected_settings(text: str, settings: Mapping[str, str]) -> ConfigurationError:
    """The error for a client that rejected its settings with `text`; it names the setting and shows no value."""
    named = [name for name in settings if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text)]
    if "JAAS" in text:
        named = ["sasl.jaas.config"]
    if not named:
        return ConfigurationError(f"the Kafka client refuses its settings kafka.*: got {', '.join(sorted(settings))}")
    which = ", ".join(f"kafka.{name}" for name in sorted(named))
    hint = "no such setting" if "No such configuration property" in text else "its value is not valid"
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
