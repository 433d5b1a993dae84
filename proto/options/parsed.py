"""`ParsedOptions`: the options of one read, with one field per option of the registry, which checks that they match."""

from __future__ import annotations

from dataclasses import field

from penstock.proto.model.access import ServerAccess
from penstock.proto.model.hybrid import ClientConfig
from penstock.proto.retry import RetryPolicy
from penstock.proto.value_classes import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedOptions:
    """Parsed options: one field per option, named by `Option.field` and documented by `Option.doc`.

    None: not given, and the option has no default. Durations are in microseconds; an infinite `endWatermark` is None.
    Fields that may contain secrets are not in the `repr`.
    """

    query: str = "snapshot"
    cdc_format: str = "rows"
    after: str | None = None
    upto: str | None = None
    as_of: str | None = None
    columns: tuple[str, ...] = ()
    where: str = ""
    limit: int | None = None
    threads: int = 0
    ordered: str = "on"
    server: str | None = None
    server_ca: str = ""
    server_cert: str = ""
    server_key: str = ""
    server_token: str = ""
    retry_timeout_us: int | None = None
    max_commits_per_trigger: int = 0
    max_files_per_trigger: int = 0
    max_bytes_per_trigger: int = 0
    max_rows_per_trigger: int = 0
    group: str | None = None
    reader_id: str | None = None
    on_lost_range: str | None = None
    fail_on_data_loss: bool | None = None
    on_new_columns: str | None = None
    stream_name: str = ""
    max_splits: int = 4
    slots: int = 0
    split_bytes: int = 128 << 20
    event_time: str = ""
    event_time_unit: str | None = None
    max_out_of_orderness_us: int | None = None
    watermark_fallback: str = "scan"
    idle_timeout_us: int | None = None
    align_with: str = ""
    max_drift_us: int | None = None
    end_watermark_us: int | None = None
    metadata: str = "on"
    record_index: str = "off"
    meta: str = "on"
    columns_by_name: str = "off"
    completion_time: str = "off"
    native_parquet: str = "on"
    timeline_timezone: str | None = None
    delete_field: str = ""
    delete_marker: str = ""
    batch_rows: int = 32_768
    mergers: tuple[tuple[str, str], ...] = ()
    on_corrupt: str | None = None
    hybrid: str | None = None
    kafka_topic: str | None = None
    kafka: ClientConfig = field(default=(), repr=False)
    kafka_value_format: str = "json"
    schema_registry_url: str = field(default="", repr=False)
    dead_letter_path: str = field(default="", repr=False)
    kafka_offsets_key: str = ""
    kafka_offsets_format: str | None = None
    kafka_checkpoint: tuple[str, ...] = field(default=(), repr=False)
    others_read_other_topics: str = "off"
    kafka_starting_group: str = ""
    kafka_starting_timestamp: int | None = None
    kafka_starting_offsets: str = ""
    explicit: frozenset[str] = frozenset()
    """The names (camelCase) of the options that the caller, the environment or a file set."""
    warnings: tuple[str, ...] = ()
    """Warnings to show once."""

    @property
    def access(self) -> ServerAccess:
        """The access to `server`. ConfigurationError for options that exclude each other."""
        return ServerAccess(ca=self.server_ca, cert=self.server_cert, key=self.server_key, token=self.server_token)

    @property
    def retry(self) -> RetryPolicy:
        """The policy of long-running readers (Spark, consumers): retries for a minute unless `retryTimeout` is set."""
        timeout_us = self.retry_timeout_us
        return RetryPolicy() if timeout_us is None else RetryPolicy(timeout_ms=timeout_us // 1000)

    @property
    def retry_if_given(self) -> RetryPolicy:
        """The policy of a single read: no retry beyond those of the client unless `retryTimeout` is set."""
        return RetryPolicy(attempts=1) if self.retry_timeout_us is None else self.retry
