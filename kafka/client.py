"""confluent-kafka, as far as it is used: imported when a client is made, its errors collected and named.

Belongs here: making clients. Not here: what is asked of them (`topics`, `records`), settings (`config`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.kafka.config import redacted, rejected_settings
from penstock.kafka.errors import ReportedError
from penstock.proto.errors import ConfigurationError

NEEDS_EXTRA: Final = "reading a topic needs the extra `kafka`: pip install 'penstock[kafka]'"

NewClient = Callable[[Mapping[str, str], "ErrorLog"], Any]


class ErrorLog:
    """What a client says apart from answers: lost connections, refused credentials. Any thread.

    The same error is said again every while only, so one that denies is kept until an answer proves it wrong.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._last: ReportedError | None = None
        self._denial: ReportedError | None = None

    def __call__(self, error: Any) -> None:
        """One more; the client's `error_cb`."""
        said = self.said(error)
        with self._lock:
            if said.denies_access:
                self._denial = said
            elif said.name != "_ALL_BROKERS_DOWN" or self._last is None:
                self._last = said

    def said(self, error: Any) -> ReportedError:
        """A client's error, without the secrets that a broker may have put into its text."""
        return ReportedError(str(error.name()), redacted(str(error.str()).strip(), self._settings))

    def answered(self) -> None:
        """The brokers did answer: forgets."""
        with self._lock:
            self._last = self._denial = None

    @property
    def denial(self) -> ReportedError | None:
        """That the brokers do not know who asks."""
        return self._denial

    @property
    def last(self) -> ReportedError | None:
        """The newest of the others."""
        return self._last


def library() -> Any:
    """The module `confluent_kafka`. ConfigurationError where it is not installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise ConfigurationError(f"{NEEDS_EXTRA} ({error})") from None
    return confluent_kafka


def new_consumer(settings: Mapping[str, str], heard: ErrorLog) -> Any:
    """A `Consumer`; ConfigurationError naming the setting that it refuses."""
    kafka = library()
    return _made(kafka, kafka.Consumer, settings, heard)


def new_admin_client(settings: Mapping[str, str], heard: ErrorLog) -> Any:
    """An `AdminClient`; ConfigurationError naming the setting that it refuses."""
    kafka = library()
    return _made(kafka, kafka.admin.AdminClient, settings, heard)


def _made(kafka: Any, kind: Any, settings: Mapping[str, str], heard: ErrorLog) -> Any:
    try:
        return kind({**settings, "error_cb": heard})
    except (kafka.KafkaException, TypeError, ValueError) as error:
        raise rejected_settings(str(error), settings) from None
