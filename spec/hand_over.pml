/* The hand-over of a hybrid read: commits of the table (the lake), then the topic that fills it, at the offsets that the
 * last commit holds. A service whose log is durable later than it is written, one reader, a writer, a producer, faults.
 *
 * Written from docs/reference/hybrid.md. spec/README.md says what is left out, which invariants are checked, and how to
 * run it. `-DBROKEN_...` breaks one rule each.
 */
#define SPEC_VERSION 2 /* the stored version of the records of a hybrid group */
#ifndef MOST_FAULTS
#define MOST_FAULTS 2
#endif
#ifndef TOP
#define TOP 2     /* records of each of two partitions */
#endif
#ifndef COMMITS
#define COMMITS 2
#endif
#ifndef RETENTION
#define RETENTION 1 /* 0: the topic keeps its records */
#endif
#define UNSEEN 255

#define LAKE 0
#define SWITCHING 1
#define KAFKA 2

#ifdef TRACE
#define trace(x) x
#else
#define trace(x) skip
#endif
#ifdef UNCHECKED
#define check(invariant, condition) skip
#else
#define check(invariant, condition) assert(invariant || (condition))
#endif
/* The names of the invariants. They are never true: an assertion shows the name of the invariant that is broken. */
hidden byte exactly_once, one_direction, same_offsets;

byte top[2], low[2];                 /* of the topic: records are low .. top - 1 */
byte commits;                        /* of the table */
byte map[2 * (COMMITS + 1)];         /* map[2 * c + p]: the offset of partition p that commit c holds */

/* What the records of the service say. A round is open while a split of it is not finished. Each partition that has
 * records in a round has one split, in the lake too. `output` is the checker's: no rule reads it. */
typedef Progress {
    byte phase, lake;                /* `lake`: commits up to this one are planned */
    byte starts[2], next[2];         /* the offsets of the hand-over, and the next to plan */
    byte from[2], upto[2];           /* the records of the open splits */
    bool is_open[2];
    bool stopped;                    /* by an error: records were lost */
    byte output[2];                  /* records of each partition in the committed output */
};
Progress live; /* in memory: every record that was decided */
Progress kept; /* the records that are durable */
bool dirty;    /* whether a record is not durable */

bool resolving;                      /* a discovery has read the offsets of the hand-over; they are not decided yet */
byte read_map[2];
bool reading[2];                     /* splits that the reader received */
bool failed;                         /* the reader found that the topic lost records of its split */

/* The checker's: the highest phase, and the offsets of the hand-over, that are durable or that the reader received. */
byte seen_phase, seen_starts[2];
byte faults_left = MOST_FAULTS;
byte p;
bool over;
#ifdef TRACE
byte looks_left = 20;                /* discoveries of a trace that find nothing */
byte ticks;                          /* faults of a trace are some steps apart, so that they meet something */
#ifndef PACE
#define PACE 1
#endif
#define is_time (ticks % PACE == PACE - 1)
#else
#define is_time true
#endif
#define may_fail (faults_left && is_time && !failed && !over)

#define drained (!live.is_open[0] && !live.is_open[1])
#define finished (live.phase == KAFKA && live.output[0] == TOP && live.output[1] == TOP && drained && !dirty)
#define ended (finished || failed || (live.stopped && !dirty))
#define offset_of(c, q) map[2 * (c) + (q)]
#define is_new(q) (live.next[q] != top[q])
#define is_lost(q) (live.next[q] < low[q])

inline copy_progress(to, source) {
#ifndef BROKEN_PHASE_NOT_STORED
    to.phase = source.phase;
#endif
    to.lake = source.lake; to.stopped = source.stopped;
    to.starts[0] = source.starts[0]; to.starts[1] = source.starts[1]; to.next[0] = source.next[0]; to.next[1] = source.next[1];
    to.from[0] = source.from[0]; to.from[1] = source.from[1]; to.upto[0] = source.upto[0]; to.upto[1] = source.upto[1];
    to.is_open[0] = source.is_open[0]; to.is_open[1] = source.is_open[1];
    to.output[0] = source.output[0]; to.output[1] = source.output[1]
}

/* One line of a trace: what happened, the topic at that time, and what the service says after it. */
inline tell_state() {
    trace(ticks++);
    trace(printf("\"ends\": [%d, %d], \"lows\": [%d, %d], \"phase\": %d, \"lake\": %d, ",
        top[0], top[1], low[0], low[1], live.phase, live.lake));
    trace(printf("\"starts\": [%d, %d], \"next\": [%d, %d], \"stopped\": %d, ",
        live.starts[0], live.starts[1], live.next[0], live.next[1], live.stopped));
    trace(printf("\"open\": [%d, %d], \"from\": [%d, %d], \"upto\": [%d, %d]}\n",
        live.is_open[0], live.is_open[1], live.from[0], live.from[1], live.upto[0], live.upto[1]))
}

/* --- the promises: what is durable, or what the reader received, is never taken back */

inline note_seen() {
    seen_phase = (live.phase > seen_phase -> live.phase : seen_phase);
    if
    :: live.phase != LAKE && seen_starts[0] == UNSEEN -> seen_starts[0] = live.starts[0]; seen_starts[1] = live.starts[1]
    :: else
    fi
}

inline check_promises() {
    check(one_direction, live.phase >= seen_phase);
    check(same_offsets, live.phase == LAKE || seen_starts[0] == UNSEEN ||
        (live.starts[0] == seen_starts[0] && live.starts[1] == seen_starts[1]))
}

/* --- the service */

inline open(q, begin, end) {
    if
    :: (begin) < (end) -> live.from[q] = begin; live.upto[q] = end; live.is_open[q] = true
    :: else
    fi
}

inline plan_commit() {
    live.lake++;
    for (p : 0 .. 1) { open(p, offset_of(live.lake - 1, p), offset_of(live.lake, p)) }
    p = 0;
    dirty = true;
    trace(printf("{\"step\": \"lake\", "));
    tell_state()
}

inline resolve() {
    resolving = true;
    read_map[0] = offset_of(live.lake, 0); read_map[1] = offset_of(live.lake, 1);
    trace(printf("{\"step\": \"resolve\"}\n"))
}

inline hand_over() {
#ifdef BROKEN_OFFSETS_OF_THE_NEWEST_COMMIT
    read_map[0] = offset_of(commits, 0); read_map[1] = offset_of(commits, 1);
#endif
    live.phase = SWITCHING;
    for (p : 0 .. 1) {
#ifdef BROKEN_ONE_RECORD_LATE
        live.starts[p] = read_map[p] + 1;
#else
        live.starts[p] = read_map[p];
#endif
        live.next[p] = live.starts[p]; read_map[p] = 0
    }
    p = 0;
    resolving = false;
    dirty = true;
    check_promises();
    trace(printf("{\"step\": \"hand over\", "));
    tell_state()
}

inline plan_ranges() {
    if
    :: is_lost(0) || is_lost(1) ->
#ifdef BROKEN_JUMPS_OVER_LOST_RECORDS
        for (p : 0 .. 1) { live.next[p] = (is_lost(p) -> low[p] : live.next[p]) }
        p = 0
#else
        live.stopped = true /* the position stays */
#endif
    :: else
    fi;
    if
    :: !live.stopped ->
        live.phase = KAFKA;
        for (p : 0 .. 1) { open(p, live.next[p], top[p]); live.next[p] = top[p] }
        p = 0
    :: else
    fi;
    dirty = true;
    check_promises();
    trace(printf("{\"step\": \"topic\", "));
    tell_state()
}

inline restart() { /* a process reads the log: what is not durable is gone */
    copy_progress(live, kept);
#ifdef BROKEN_PHASE_NOT_STORED
    live.phase = kept.phase;
#endif
#ifdef BROKEN_OFFSETS_NOT_STORED
    if
    :: live.phase == SWITCHING ->
        for (p : 0 .. 1) { live.starts[p] = offset_of(commits, p); live.next[p] = live.starts[p] }
        p = 0
    :: else
    fi;
#endif
    dirty = false;
    resolving = false; read_map[0] = 0; read_map[1] = 0; reading[0] = false; reading[1] = false;
    check_promises();
    trace(printf("{\"step\": \"restart\", "));
    tell_state()
}

/* --- the reader */

#define is_unread(q) (live.is_open[q] && !reading[q])

inline ask() { /* it receives every split that it has not received */
    note_seen();
    trace(printf("{\"step\": \"ask\", \"splits\": [%d, %d], ", is_unread(0), is_unread(1)));
    reading[0] = live.is_open[0]; reading[1] = live.is_open[1];
    tell_state()
}

inline finish(q) { /* it read a split, and commits it: its rows are in the output */
    trace(printf("{\"step\": \"finish\", \"partition\": %d, \"first\": %d, \"end\": %d, ", q, live.from[q], live.upto[q]));
    check(exactly_once, live.from[q] == live.output[q]);
    live.output[q] = live.upto[q];
    live.is_open[q] = false; live.from[q] = 0; live.upto[q] = 0; reading[q] = false;
    dirty = true;
    tell_state()
}

#define is_expired(q) (live.phase == KAFKA && live.from[q] < low[q])
#define can_finish(q) (reading[q] && live.is_open[q] && !is_expired(q))
#define cannot_read(q) (reading[q] && live.is_open[q] && is_expired(q))

inline fail(q) {
    failed = true;
    trace(printf("{\"step\": \"expired\", \"partition\": %d, ", q));
    tell_state()
}

/* --- the processes */

#ifdef BROKEN_ANSWERS_BEFORE_SYNC
#define may_answer true
#else
#define may_answer (!dirty)
#endif

proctype log() {
end: do
    :: d_step { dirty && !over -> copy_progress(kept, live); dirty = false; note_seen(); trace(printf("{\"step\": \"synced\"}\n")) }
    od
}

proctype reader() {
end: do
    :: d_step { (is_unread(0) || is_unread(1)) && may_answer && !failed && !over -> ask() }
    :: d_step { can_finish(0) && !failed && !over -> finish(0) }
    :: d_step { can_finish(1) && !failed && !over -> finish(1) }
    :: d_step { cannot_read(0) && !failed && !over -> fail(0) }
    :: d_step { cannot_read(1) && !failed && !over -> fail(1) }
    od
}

#ifdef BROKEN_HAND_OVER_BEFORE_THE_LAST_SPLIT
#define may_hand_over (live.phase == LAKE && live.lake > 0)
#else
#define may_hand_over (live.phase == LAKE && live.lake > 0 && live.lake == commits && drained)
#endif
#ifdef BROKEN_NO_ROUND_WITHOUT_RECORDS
#define may_enter_topic (live.phase == SWITCHING && (is_new(0) || is_new(1)))
#else
#define may_enter_topic (live.phase == SWITCHING)
#endif
#define may_plan_commit (live.phase == LAKE && live.lake < commits && drained)
#define may_plan_ranges (live.phase == KAFKA && drained && (is_new(0) || is_new(1)))
#define has_nothing ((live.phase == LAKE && live.lake == commits && !may_hand_over) || \
    (live.phase == SWITCHING && !may_enter_topic) || (live.phase == KAFKA && !is_new(0) && !is_new(1)))
#define may_discover (!resolving && !live.stopped && !over)

proctype discovery() {
end: do
    :: d_step { may_plan_commit && may_discover -> plan_commit() }
    :: d_step { may_hand_over && may_discover -> resolve() }
    :: d_step { resolving && !over -> hand_over() }
    :: d_step { may_enter_topic && may_discover -> plan_ranges() }
    :: d_step { may_plan_ranges && may_discover -> plan_ranges() }
#ifdef TRACE
    :: d_step { has_nothing && may_discover && looks_left -> looks_left--; printf("{\"step\": \"nothing\", "); tell_state() }
#endif
    od
}

proctype producer() {
end: do
    :: d_step { top[0] < TOP && !over -> top[0]++ }
    :: d_step { top[1] < TOP && !over -> top[1]++ }
    :: top[0] == TOP && top[1] == TOP -> break
    od
}

inline commit(first, second) {
    commits++;
    map[2 * commits] = first; map[2 * commits + 1] = second;
    trace(printf("{\"step\": \"commit\", \"commit\": %d, \"map\": [%d, %d]}\n", commits, first, second))
}

proctype writer() { /* a commit holds what the writer consumed: all of a partition, or nothing new of it */
end: do
    :: d_step { commits < COMMITS && !over -> commit(top[0], top[1]) }
    :: d_step { commits < COMMITS && !over -> commit(top[0], map[2 * commits - 1]) }
    :: commits == COMMITS -> break
    od
}

proctype faults() {
end: do
    :: d_step { may_fail -> faults_left--; restart() }
    :: d_step { may_fail && (reading[0] || reading[1]) -> /* the reader starts again */
        faults_left--; reading[0] = false; reading[1] = false;
        trace(ticks++); trace(printf("{\"step\": \"rejoin\"}\n")) }
    :: d_step { may_fail && RETENTION && low[0] < top[0] -> faults_left--; low[0] = top[0]; trace(ticks++) } /* retention */
    :: d_step { may_fail && RETENTION && low[1] < top[1] -> faults_left--; low[1] = low[1] + 1; trace(ticks++) }
    od
}

init {
    atomic {
        trace(printf("{\"spec\": \"hand over\", \"version\": %d, \"partitions\": 2, \"commits\": %d, \"top\": %d}\n",
            SPEC_VERSION, COMMITS, TOP));
        seen_starts[0] = UNSEEN; seen_starts[1] = UNSEEN;
        run reader(); run log(); run discovery(); run producer(); run writer(); run faults();
#ifdef TRACE
        run stopper()
#endif
#ifdef LIVENESS
        run time()
#endif
    }
}

#ifdef TRACE
proctype stopper() {
    d_step { ended -> over = true; printf("{\"step\": \"end\"}\n") }
}
#endif

#ifdef LIVENESS
proctype time() { do :: d_step { !over -> skip } od } /* Spin finds a cycle, but no run that stands still: time goes on for ever */
ltl liveness { <>[] ended }
#endif
