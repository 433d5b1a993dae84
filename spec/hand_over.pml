/* The hand-over of a hybrid read: commits of the table (the lake), then the topic that fills it, at the offsets that the
 * last commit holds. One service with its log, one reader, a writer, a producer, and faults.
 *
 * Written from docs/reference/hybrid.md. spec/README.md says what is left out, and how to run it.
 */
#define SPEC_VERSION 1
#ifndef MOST_FAULTS
#define MOST_FAULTS 2
#endif
#define TOP 2     /* records of each of two partitions */
#define COMMITS 2

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
hidden byte exactly_once, one_direction, same_offsets; /* names; never true */

byte top[2], low[2];                 /* of the topic: records are low .. top - 1 */
byte commits;                        /* of the table */
byte map[6];                         /* map[2 * c + p]: the offset of partition p that commit c holds */

/* The progress, which is durable when it changes. A round is open while a split of it is not finished. */
byte phase, lake;                    /* `lake`: commits up to this one are planned */
byte starts[2], next[2];             /* the offsets of the hand-over, and the next to plan */
byte from[2], upto[2];               /* the open ranges of records; of the lake both are one split */
bool is_open[2];
bool stopped;

bool resolving;                      /* the offsets were read, and are not stored */
byte read_map[2];
bool reading[2];                     /* splits that the reader reads */

/* The checker's: the records of each partition that are in the committed output, and the first map that was stored. */
byte output[2], first_map[2];
byte faults_left = MOST_FAULTS;
byte p;
bool over;

#define drained (!is_open[0] && !is_open[1])
#define finished (output[0] == TOP && output[1] == TOP && drained)
#define offset_of(c, q) map[2 * (c) + (q)]

inline plan_commit() {
    lake++;
    for (p : 0 .. 1) {
        from[p] = offset_of(lake - 1, p); upto[p] = offset_of(lake, p);
        is_open[p] = true
    }
    p = 0;
    trace(printf("{\"step\": \"lake\", \"commit\": %d}\n", lake))
}

inline resolve() {
    resolving = true;
    read_map[0] = offset_of(lake, 0); read_map[1] = offset_of(lake, 1)
}

inline store_map() {
#ifdef BROKEN_OFFSETS_OF_THE_NEWEST_COMMIT
    read_map[0] = offset_of(commits, 0); read_map[1] = offset_of(commits, 1);
#endif
    check(one_direction, phase == LAKE);
    check(same_offsets, first_map[0] == 255 || (first_map[0] == read_map[0] && first_map[1] == read_map[1]));
    phase = SWITCHING;
    for (p : 0 .. 1) {
#ifdef BROKEN_ONE_RECORD_LATE
        starts[p] = read_map[p] + 1;
#else
        starts[p] = read_map[p];
#endif
        next[p] = starts[p]; first_map[p] = read_map[p]; read_map[p] = 0
    }
    p = 0;
    resolving = false;
    trace(printf("{\"step\": \"hand over\", \"commit\": %d, \"map\": [%d, %d], \"ends\": [%d, %d], \"lows\": [%d, %d], ",
        lake, first_map[0], first_map[1], top[0], top[1], low[0], low[1]));
    trace(printf("\"starts\": [%d, %d]}\n", starts[0], starts[1]))
}

inline plan_ranges() {
    trace(printf("{\"step\": \"topic\", \"ends\": [%d, %d], \"lows\": [%d, %d], ", top[0], top[1], low[0], low[1]));
    phase = KAFKA;
    if
    :: next[0] < low[0] || next[1] < low[1] ->
#ifdef BROKEN_JUMPS_OVER_LOST_RECORDS
        for (p : 0 .. 1) { next[p] = (next[p] < low[p] -> low[p] : next[p]) }
        p = 0
#else
        stopped = true
#endif
    :: else
    fi;
    if
    :: !stopped ->
        for (p : 0 .. 1) { from[p] = next[p]; upto[p] = top[p]; is_open[p] = (from[p] < upto[p]); next[p] = top[p] }
        p = 0
    :: else
    fi;
    trace(printf("\"stopped\": %d, \"from\": [%d, %d], \"upto\": [%d, %d]}\n", stopped, from[0], from[1], upto[0], upto[1]))
}

inline put_out(q) { /* the reader commits a split: its rows are in the output, durably */
    check(exactly_once, from[q] == output[q]);
    output[q] = upto[q];
    is_open[q] = false; reading[q] = false
}

proctype reader() {
end: do
    :: d_step { is_open[0] && !reading[0] && !over -> reading[0] = true }
    :: d_step { is_open[1] && !reading[1] && !over -> reading[1] = true }
    :: d_step { reading[0] && is_open[0] && !over -> put_out(0); trace(printf("{\"step\": \"finish\", \"partition\": 0}\n")) }
    :: d_step { reading[1] && is_open[1] && !over -> put_out(1); trace(printf("{\"step\": \"finish\", \"partition\": 1}\n")) }
    od
}

#ifdef BROKEN_HAND_OVER_BEFORE_THE_LAST_SPLIT
#define may_hand_over (phase == LAKE && lake > 0)
#else
#define may_hand_over (phase == LAKE && lake > 0 && lake == commits && drained)
#endif

proctype discovery() {
end: do
    :: d_step { phase == LAKE && lake < commits && drained && !resolving && !over -> plan_commit() }
    :: d_step { may_hand_over && !resolving && !over -> resolve() }
    :: d_step { resolving && !over -> store_map() }
    :: d_step { phase == SWITCHING && !resolving && !stopped && !over -> plan_ranges() }
    :: d_step { phase == KAFKA && drained && !stopped && (next[0] != top[0] || next[1] != top[1]) && !over -> plan_ranges() }
    od
}

proctype producer() {
end: do
    :: d_step { top[0] < TOP && !over -> top[0]++ }
    :: d_step { top[1] < TOP && !over -> top[1]++ }
    :: top[0] == TOP && top[1] == TOP -> break
    od
}

proctype writer() { /* a commit holds what the writer consumed: all of a partition, or nothing new of it */
end: do
    :: d_step { commits < COMMITS && !over -> commits++; map[2 * commits] = top[0]; map[2 * commits + 1] = top[1] }
    :: d_step { commits < COMMITS && !over -> commits++; map[2 * commits] = top[0]; map[2 * commits + 1] = map[2 * commits - 1] }
    :: commits == COMMITS -> break
    od
}

proctype faults() {
end: do
    :: d_step { faults_left && !over -> /* the service restarts: what is not stored is gone */
        faults_left--;
        resolving = false; read_map[0] = 0; read_map[1] = 0; reading[0] = false; reading[1] = false;
        trace(printf("{\"step\": \"restart\", \"phase\": %d}\n", phase)) }
    :: d_step { faults_left && !over && (reading[0] || reading[1]) -> faults_left--; reading[0] = false; reading[1] = false }
    :: d_step { faults_left && !over && low[0] < top[0] -> faults_left--; low[0] = top[0] } /* retention */
    :: d_step { faults_left && !over && low[1] < top[1] -> faults_left--; low[1] = low[1] + 1 }
    od
}

init {
    atomic {
        trace(printf("{\"spec\": \"hand over\", \"version\": %d, \"partitions\": 2, \"commits\": %d}\n", SPEC_VERSION, COMMITS));
        first_map[0] = 255; first_map[1] = 255;
        run reader(); run discovery(); run producer(); run writer(); run faults();
#ifdef TRACE
        run stopper()
#endif
    }
}

#ifdef TRACE
proctype stopper() {
    d_step { finished || stopped -> over = true; printf("{\"step\": \"end\"}\n") }
}
#endif

#ifdef LIVENESS
ltl liveness { <>[] (stopped || finished) }
#endif
