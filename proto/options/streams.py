"""The options that streams alone have, or share with consumer groups: a part of the one registry (`options`).

Standard library only, no I/O.
"""

from __future__ import annotations

from typing import Final

from penstock.proto.options.entry import EVERYWHERE, STREAMS, TRIGGERED, Option
from penstock.proto.options.types import Choice, Duration, Number, TrueFalse

STREAM_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="maxCommitsPerTrigger",
        type=Number(0, 2**31 - 1),
        default=0,
        entry_points=TRIGGERED,
        doc="At most so many data commits a micro-batch, or a round of a consumer group; 0: no cap.",
    ),
    Option(
        name="maxFilesPerTrigger",
        type=Number(0, 2**63 - 1),
        default=0,
        entry_points=TRIGGERED,
        doc="At most so many files a micro-batch, or a round of a consumer group, which may end inside a commit; 0: no "
        "cap. A micro-batch or round holds at least one file group. The caps of a group count when it is made; "
        "`Trigger.Once` has no caps.",
    ),
    Option(
        name="maxBytesPerTrigger",
        type=Number(0, 2**63 - 1),
        default=0,
        entry_points=TRIGGERED,
        doc="At most so many bytes on storage a micro-batch, or a round of a consumer group; 0: no cap.",
    ),
    Option(
        name="maxRowsPerTrigger",
        type=Number(0, 2**63 - 1),
        default=0,
        entry_points=TRIGGERED,
        doc="At most so many rows, as commits tell them, a micro-batch, or a round of a consumer group; 0: no cap.",
    ),
    Option(
        name="onLostRange",
        type=Choice(("fail", "earliest", "snapshot")),
        entry_points=TRIGGERED,
        doc="What a stream or a consumer group does when the range behind its position can no longer be answered "
        "exactly, for files or instants were cleaned away. Not given, or `fail`: it stops and says what is lost. "
        "`earliest`: it goes on with what is still there, and reports the gap. `snapshot`: it hands out the table's "
        "rows anew, and goes on behind them (rows alone, not changes).",
    ),
    Option(
        name="failOnDataLoss",
        type=TrueFalse(),
        entry_points=STREAMS,
        doc="Spark's own word: `false` says `onLostRange=earliest`, `true` says `onLostRange=fail`.",
    ),
    Option(
        name="eventTimeUnit",
        type=Choice(("s", "ms", "us")),
        entry_points=EVERYWHERE,
        doc="The unit of an `eventTime` column of plain whole numbers (`long`, since 1970 UTC): seconds, milliseconds "
        "or microseconds. In Spark needed for such a column, and refused for one that is a timestamp.",
    ),
    Option(
        name="maxOutOfOrderness",
        type=Duration(),
        entry_points=STREAMS,
        doc="With `eventTime`, how far a row's event time may lie behind the highest one before it: at the newest "
        "commit the watermark stands so far behind. Rows that are later are late, and Spark drops them: so a stream "
        "with `eventTime` needs it, and it has no default.",
    ),
    Option(
        name="watermarkFallback",
        type=Choice(("scan", "hold", "commitTime")),
        default="scan",
        entry_points=STREAMS,
        doc="What bounds the event times of rows that no statistics tell of. `scan`: they are read when they are "
        "planned. `hold`: the watermark waits until they are delivered. `commitTime`: the completion time of their "
        "instant, less `maxOutOfOrderness` (a table whose timeline is LOCAL needs `timelineTimezone` for it).",
    ),
    Option(
        name="idleTimeout",
        type=Duration(),
        entry_points=STREAMS,
        doc="With `eventTime`: the watermark of a table without new commits goes on by so much each time so much time "
        "has passed. Rows that come later than that are late. Not given: the watermark of an idle table stands.",
    ),
    Option(
        name="endWatermark",
        type=Duration(word="infinite"),
        entry_points=STREAMS,
        doc="With `eventTime` and `upto`: how far above the highest event time the watermark stands when the stream "
        "has ended. Not given, or `infinite`: behind every event time, so that every window is emitted; later rows "
        "would be dropped, so the checkpoint is spent.",
    ),
)
