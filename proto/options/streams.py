"""The options of streams, some shared with consumer groups: a part of the registry
(`penstock.proto.options.registry`).
"""

from __future__ import annotations

from typing import Final

from penstock.proto.options.entry import EVERYWHERE, STREAMS, TRIGGERED, Option
from penstock.proto.options.types import Choice, Duration, Number, Text, TrueFalse

STREAM_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="maxCommitsPerTrigger",
        type=Number(0, 2**31 - 1),
        default=0,
        entry_points=TRIGGERED,
        doc="The maximum number of data commits in a micro-batch, or in a round of a consumer group; 0: no limit.",
    ),
    Option(
        name="maxFilesPerTrigger",
        type=Number(0, 2**63 - 1),
        default=0,
        entry_points=TRIGGERED,
        doc="The maximum number of files in a micro-batch, or in a round of a consumer group, which may end "
        "inside a commit; 0: no limit. Each contains at least one file group. The limits of a group are "
        "fixed when it is created; `Trigger.Once` ignores limits.",
    ),
    Option(
        name="maxBytesPerTrigger",
        type=Number(0, 2**63 - 1),
        default=0,
        entry_points=TRIGGERED,
        doc="The maximum number of bytes on storage in a micro-batch, or in a round of a consumer group; 0: no limit.",
    ),
    Option(
        name="maxRowsPerTrigger",
        type=Number(0, 2**63 - 1),
        default=0,
        entry_points=TRIGGERED,
        doc="The maximum number of rows, by the statistics of commits, in a micro-batch, or in a round of a "
        "consumer group; 0: no limit.",
    ),
    Option(
        name="onLostRange",
        type=Choice(("fail", "earliest", "snapshot")),
        entry_points=TRIGGERED,
        doc="What a stream or a consumer group does when the range after its position can no longer be read "
        "exactly, because files or instants were cleaned. Not given, or `fail`: it stops and names what "
        "is lost. `earliest`: it continues with what still exists, and reports the gap. `snapshot`: it "
        "reads the table's rows again and continues after them (rows only, not changes).",
    ),
    Option(
        name="failOnDataLoss",
        type=TrueFalse(),
        entry_points=STREAMS,
        doc="Spark's own name: `false` is `onLostRange=earliest`, `true` is `onLostRange=fail`.",
    ),
    Option(
        name="onNewColumns",
        type=Choice(("ignore", "fail")),
        entry_points=STREAMS,
        doc="What a stream does when the table gains a column, or a struct gains a field, that the stream's schema "
        "lacks. Not given, or `ignore`: it continues without the column, and logs each once. `fail`: it stops before "
        "the next micro-batch and names the columns; a restart with a new `load()` continues from the checkpoint with "
        "them. `fail` requires a stream of all columns, without `columns` and `.schema()`.",
    ),
    Option(
        name="streamName",
        type=Text("name"),
        default="",
        entry_points=STREAMS,
        doc="The name of the stream in lists, metrics and alerts of `server`, unique among the streams of a table; "
        "best the name of Spark's query. Not given: the server generates one, which changes when the query restarts. "
        "At most 200 letters, digits and `. _ - : @ /`.",
    ),
    Option(
        name="eventTimeUnit",
        type=Choice(("s", "ms", "us")),
        entry_points=EVERYWHERE,
        doc="The unit of an `eventTime` column of whole numbers (`long`, since 1970 UTC): seconds, "
        "milliseconds or microseconds. Spark requires it for such a column and refuses it for a "
        "timestamp.",
    ),
    Option(
        name="maxOutOfOrderness",
        type=Duration(),
        entry_points=TRIGGERED,
        doc="With `eventTime`: how far a row's event time may lie below the highest one before it. The "
        "watermark is the highest event time of the newest commit minus this duration. Later rows are "
        "late, and Spark drops them; a stream with `eventTime` therefore requires this option, which has "
        "no default. A consumer group has a watermark only with this option; it returns late rows too.",
    ),
    Option(
        name="watermarkFallback",
        type=Choice(("scan", "hold", "commitTime")),
        default="scan",
        entry_points=TRIGGERED,
        doc="How the event times of rows without statistics are bounded. `scan`: the rows are read when they "
        "are planned. `hold`: the watermark waits until they are delivered. `commitTime`: the completion "
        "time of their instant minus `maxOutOfOrderness` (a table whose timeline is LOCAL requires "
        "`timelineTimezone`).",
    ),
    Option(
        name="idleTimeout",
        type=Duration(),
        entry_points=TRIGGERED,
        doc="With `eventTime`: the watermark of a table without new commits advances by this duration each "
        "time this duration has passed. Rows that come later than that are late. Not given: the watermark "
        "of an idle table does not advance.",
    ),
    Option(
        name="alignWith",
        type=Text("name"),
        default="",
        entry_points=TRIGGERED,
        doc="With `eventTime` and `server`: the name of an alignment set of streams and consumer groups. A stream of "
        "the set whose watermark is more than its `maxDrift` above the lowest one of the set gets no batch, and "
        "batches of all its streams are cut at commits and splits, so that the state of a join stays small. A group "
        "hands out splits in the same bounds; in a group over many tables each table is a member. Sets of different "
        "callers are different. A stream or group without a batch for its `idleTimeout` (not given: 5 minutes) does "
        "not hold back the others. At most 200 letters, digits and `. _ - : @ /`.",
    ),
    Option(
        name="maxDrift",
        type=Duration(),
        entry_points=TRIGGERED,
        doc="With `alignWith`: how far above the lowest watermark of the set the stream or group may read.",
    ),
    Option(
        name="endWatermark",
        type=Duration(word="infinite"),
        entry_points=STREAMS,
        doc="With `eventTime` and `upto`: how far the watermark is above the highest event time when the "
        "stream has ended. Not given, or `infinite`: above every event time, so that every window is "
        "emitted; the checkpoint cannot be used again, because later rows would be dropped.",
    ),
)
