"""Creates confluent-kafka's clients and collects the errors that they report. The library is imported on first use."""

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
    """The errors that a client reports in the background: lost connections, refused credentials. Any thread.

    A client repeats an error only from time to time. An error that denies access is therefore kept until a broker
    answers.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._last: ReportedError | None = None
        self._denial: ReportedError | None = None

    def __call__(self, error: Any) -> None:
        """Records an error; the client's `error_cb`."""
        reported = self.reported(error)
        with self._lock:
            if reported.denies_access:
                self._denial = reported
            elif reported.name != "_ALL_BROKERS_DOWN" or self._last is None:
                self._last = reported

    def reported(self, error: Any) -> ReportedError:
        """The client's error, without secrets that a broker may have put into its text."""
        return ReportedError(str(error.name()), redacted(str(error.str()).strip(), self._settings))

    def clear(self) -> None:
        """Drops all errors, after a broker answered."""
        with self._lock:
            self._last = self._denial = None

    @property
    def denial(self) -> ReportedError | None:
        """The last error that denies access; None: none since the last answer."""
        return self._denial

    @property
    def last(self) -> ReportedError | None:
        """The last other error; None: none since the last answer."""
        return self._last


def library() -> Any:
    """The module `confluent_kafka`. ConfigurationError if it is not installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise ConfigurationError(f"{NEEDS_EXTRA} ({error})") from None
    return confluent_kafka


def new_consumer(settings: Mapping[str, str], error_log: ErrorLog) -> Any:
    """A `Consumer`. ConfigurationError with the name of the setting that it rejects."""
    kafka = library()
    return _new_client(kafka, kafka.Consumer, settings, error_log)


def new_admin_client(settings: Mapping[str, str], error_log: ErrorLog) -> Any:
    """An `AdminClient`. ConfigurationError with the name of the setting that it rejects."""
    kafka = library()
    return _new_client(kafka, kafka.admin.AdminClient, settings, error_log)


def _new_client(kafka: Any, kind: Any, settings: Mapping[str, str], error_log: ErrorLog) -> Any:
    try:
        return kind({**settings, "error_cb": error_log})
    except (kafka.KafkaException, TypeError, ValueError) as error:
        raise rejected_settings(str(error), settings) from None
