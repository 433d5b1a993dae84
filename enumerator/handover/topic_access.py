"""Client settings of the topics of tables, from the server's configuration or from requests in this process.

Settings may hold secrets: they stay in memory, and no text shows them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.hybrid import Hybrid, KafkaAccess
from penstock.proto.value_classes import dataclass

if TYPE_CHECKING:
    from penstock.enumerator.planning.annotate import EventTimeScan
    from penstock.kafka.protocols import OpenTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """How planning reads topics."""

    open_topic: OpenTopic
    """Opens a topic with the given client settings."""
    scan_event_time: EventTimeScan | None = None
    """Reads the event times of a range; None: this process cannot."""


class TopicAccessRegistry:
    """Client settings by table. Any thread.

    `configured` (by table name) is the server's configuration: requests use these settings, and name no folders. With
    None each request carries its own settings; they are remembered for later requests of the same topic without them,
    such as those that a store returns.
    """

    def __init__(self, configured: Mapping[str, KafkaAccess] | None = None) -> None:
        self._configured = None if configured is None else dict(configured)
        self._remembered: dict[tuple[str, str], KafkaAccess] = {}
        self._lock = threading.Lock()

    def with_access(self, table: str, hybrid: Hybrid) -> Hybrid:
        """The hybrid read with its client settings. ConfigurationError without settings, or for invalid hints."""
        from penstock.enumerator.handover.resolve import check_hints

        check_hints(hybrid)
        if self._configured is not None:
            return self._of_server(table, hybrid)
        key = (table, hybrid.topic)
        with self._lock:
            if hybrid.access.client:
                self._remembered[key] = hybrid.access
            access = self._remembered.get(key)
        if access is None:
            raise ConfigurationError(
                f"topic {hybrid.topic} of table {table}: no client settings are known; give kafka.bootstrap.servers"
            )
        return replace(hybrid, access=access)

    def _of_server(self, table: str, hybrid: Hybrid) -> Hybrid:
        if self._configured is None:
            raise InvariantViolation(f"table {table}: no configuration of topics")
        access = self._configured.get(table)
        if access is None:
            raise ConfigurationError(
                f"table {table} has no topic here: the server's configuration has no kafka settings for it"
            )
        if hybrid.rules.checkpoints:
            raise ConfigurationError(
                "kafkaCheckpoint: a server reads only the folders in its configuration (tables.NAME.kafkaCheckpoint)"
            )
        return replace(hybrid, access=access, rules=replace(hybrid.rules, checkpoints=access.checkpoints))
