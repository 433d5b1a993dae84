"""The column `_completion_time`: looks up the completion time of each row's commit, for all rows of a batch at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.model.positions import CompletionTimes
from penstock.reader.split.read_schema import COMMIT_TIME
from penstock.reader.values.dictionary_text import is_encoded
from penstock.table.arrow_arrays import arrow_array, numpy_array
from penstock.table.arrow_compute import pc
from penstock.table.schema.completion import COMPLETION_TYPE

_INSTANT: Final = r"^(000000000000[0-9]{2}|[1-9]([0-9]{13}|[0-9]{16}))$"
"""14 or 17 digits. Those of a bootstrap are 00000000000001 and 00000000000002."""
_US_IN_MS: Final = 1000


class CompletionColumn:
    """The completion times of one scan."""

    def __init__(self, times: CompletionTimes) -> None:
        self._instants = np.array(times.instants, np.int64)
        self._completed_us = np.array(times.completed_ms, np.int64) * _US_IN_MS

    def of_batch(self, rows: pa.RecordBatch) -> pa.Array:
        """The completion time of the commit of each row. Null for a commit whose completion time is unknown, and for
        every row of a table without commit times."""
        if COMMIT_TIME not in rows.schema.names:
            return pa.nulls(rows.num_rows, COMPLETION_TYPE)
        return self.of_commits(rows.column(COMMIT_TIME))

    def of_commits(self, commits: pa.Array) -> pa.Array:
        """The completion times of commits (requested times as text, encoded or not); null where unknown."""
        encoded = commits if is_encoded(commits.type) else pc.dictionary_encode(commits)
        return self._known(encoded.dictionary).take(encoded.indices)

    def of_commit(self, commit: str, rows: int) -> pa.Array:
        """`rows` times the completion time of one commit."""
        return pa.repeat(self._known(arrow_array([commit], pa.string()))[0], rows)

    def _known(self, commits: pa.Array) -> pa.Array:
        """The completion times of distinct commits."""
        if not len(self._instants):
            return pa.nulls(len(commits), COMPLETION_TYPE)
        is_instant = pc.match_substring_regex(commits, _INSTANT).fill_null(False)
        numbers = numpy_array(pc.if_else(is_instant, commits, "0").cast(pa.int64()))
        places = np.minimum(np.searchsorted(self._instants, numbers), len(self._instants) - 1)
        unknown = self._instants[places] != numbers
        return arrow_array(self._completed_us[places], pa.int64(), mask=unknown).cast(COMPLETION_TYPE)
