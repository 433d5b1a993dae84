"""How the topics of tables are reached: what a server's configuration says, or what a caller in this process gave.

Not here: what is done with it (`kafka`). Settings may hold secrets: they stay in memory, and no text shows them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.hybrid import Hybrid, KafkaAccess


class TopicAccesses:
    """Accesses by table. Any thread. With `configured` (by table name) those alone count, and callers name no folders;
    None: a request carries its own, which is remembered for requests that come back from a store without it."""

    def __init__(self, configured: Mapping[str, KafkaAccess] | None = None) -> None:
        self._configured = None if configured is None else dict(configured)
        self._told: dict[tuple[str, str], KafkaAccess] = {}
        self._lock = threading.Lock()

    def given(self, table: str, hybrid: Hybrid) -> Hybrid:
        """The same with its access. ConfigurationError where none is known, or for rules that cannot be."""
        from penstock.enumerator.handover.resolve import check_rules

        check_rules(hybrid)
        if self._configured is not None:
            return self._of_server(table, hybrid)
        key = (table, hybrid.topic)
        with self._lock:
            if hybrid.access.client:
                self._told[key] = hybrid.access
            access = self._told.get(key)
        if access is None:
            raise ConfigurationError(
                f"topic {hybrid.topic} behind table {table}: nobody said how to reach it; give kafka.bootstrap.servers"
            )
        return replace(hybrid, access=access)

    def _of_server(self, table: str, hybrid: Hybrid) -> Hybrid:
        if self._configured is None:
            raise InvariantViolation(f"table {table}: no configuration of topics")
        access = self._configured.get(table)
        if access is None:
            raise ConfigurationError(
                f"table {table} has no topic here: the server's configuration says nothing of kafka for it"
            )
        if hybrid.rules.checkpoints:
            raise ConfigurationError(
                "kafkaCheckpoint: which folders a server reads is said in its own configuration (kafka, checkpoints)"
            )
        return replace(hybrid, access=access, rules=replace(hybrid.rules, checkpoints=access.checkpoints))
