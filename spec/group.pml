/* The protocol of a consumer group: readers, the service with its log, discovery, a writer, an operator, and faults.
 *
 * Written from docs/reference/semantics.md, docs/operations.md and proto/v1/penstock.proto. spec/README.md says what is
 * left out, which invariants are checked, and how to run it. `-DBROKEN_...` breaks one rule each.
 */
#define SPEC_VERSION 1

#ifndef MOST_FAULTS
#define MOST_FAULTS 1
#endif
#ifndef EACH_FAULT
#define EACH_FAULT 1 /* each kind happens once at most; 0: as often as MOST_FAULTS allows */
#endif

/* --- the table: two commits. The first writes the file groups a (ROWS rows) and b, the second writes a again.
 * -DSMALL: one row, and both commits are visible from the start. */
#define READERS 2
#define SPLITS 3
#define COMMITS 2
#define MAX_SPLITS 2 /* of a request */
#define commit_of(s) (1 + ((s) == 2))
#define lane_of(s) ((s) == 1)
#ifdef SMALL
#define ROWS 1
#define FIRST_VISIBLE COMMITS
#else
#define FIRST_VISIBLE 0
#endif
#ifndef ROWS
#define ROWS 2 /* of the first split */
#endif
#define rows_of(s) (1 + (ROWS - 1) * ((s) == 0))
#define bit_of(s) (1 << (s))

/* --- states of a split */
#define ABSENT 0
#define PENDING 1
#define DONE 2
#define HELD_BY(r) (3 + (r))

/* --- the newest request of a member */
#define UNANSWERED 0
#define EMPTY 1
#define WITH_SPLITS 2

/* --- faults */
#define EXPIRY 0
#define RESTART 1
#define ANSWER_LOST 2
#define CALL_DOUBLED 3
#define DISCOVERY_DOUBLED 4
#define RESET 5
#define KILL 6
#define LEAVING 7
#define HEARTBEAT 8
#define FAULTS 9

mtype = { join, ask, part, finish, beat, leave };
#define none 0
mtype = { joined, fenced, splits, nothing, end, committed, unknown, alive, gone };

/* The names of the invariants. They are never true: an assertion shows the name of the invariant that is broken. */
hidden byte exactly_once, fencing, ownership, order, position, number, durable, answers;
#ifdef UNCHECKED
#define check(invariant, condition) skip
#else
#define check(invariant, condition) assert(invariant || (condition))
#endif

#ifdef TRACE
#define trace(x) x
#else
#define trace(x) skip
#endif

/* What the records of the service say. `shown`, `member` and `over` are the checker's: no rule reads them. */
typedef Group {
    byte last;              /* the highest number that was given as an epoch or a generation */
    byte generation;
    byte planned;           /* rounds are planned up to this commit */
    byte position;          /* every split up to this commit is finished */
    bool ended;             /* the end of the group is planned */
    byte status[SPLITS];
    byte ordinal[SPLITS];   /* committed rows of the split */
    byte epoch[READERS];    /* 0: no member */
    byte joining[READERS];  /* id of the call that joined */
    byte undelivered[READERS]; /* splits that it holds and that its epoch has not received */
    byte answered[READERS];
    byte given[READERS];    /* the splits of that answer */
    byte missed[READERS];   /* splits of an answer that it did not receive: a copy of an earlier request got them */
    bool copy_given;        /* the copy on its way has the number of a request that got splits, or a lower one */
    byte shown[SPLITS];     /* rows in the committed output of this generation */
    byte member[READERS];   /* the epoch whose output counts */
};
Group live; /* in memory: every record that was decided */
Group kept; /* the records that are durable */
bool dirty; /* whether a record is not durable */

/* A reader, and its call, which it repeats until it hears an answer. */
typedef Client {
    byte epoch;
    byte joins;             /* id of its newest join */
    byte held;
    byte start[SPLITS];     /* its next row of a split that it holds */
    mtype call;
    byte what;              /* splits of a commit */
    mtype answer;           /* decided, and not heard yet */
    byte got;               /* the epoch, or the splits */
};
Client client[READERS];

byte visible = FIRST_VISIBLE; /* commits in the table */
bool looking;               /* a discovery has read the table */
byte looking_generation, looking_start;
bool again;                 /* its result arrives a second time */
byte again_generation, again_start;

mtype copy_call;            /* a call that arrives a second time */
byte copy_reader, copy_epoch, copy_join, copy_what, copy_start[SPLITS];
bool copy_newest;           /* whether it is the newest call of its reader */
bool copy_answered;         /* this process answered its request or a later one of its reader */

byte highest = 1;           /* the highest epoch or generation that somebody heard */
byte faults_used, faults_left = MOST_FAULTS;
bool over;                  /* of a trace */

#define finished (live.ended && live.position == COMMITS && !dirty)
#ifdef TRACE
byte ticks; /* faults of a trace are some calls apart, so that they meet something */
#ifndef PACE
#define PACE 1
#endif
#define is_time (ticks % PACE == PACE - 1)
#else
#define is_time true
#endif
#ifdef LATE_COPIES /* copies of a trace arrive after a restart, when their reader has gone on */
#define copy_arrives ((!copy_newest && !copy_answered) || faults_left == 0)
#else
#define copy_arrives true
#endif
#ifndef KINDS
#define KINDS 511 /* which faults, as bits */
#endif
#define may(kind) (is_time && (KINDS & bit_of(kind)) && faults_left > 0 && !(faults_used & (EACH_FAULT << (kind))))

/* Variables of one step: 0 between steps. */
byte s, t, chosen, count, is_waiting;
bool is_earlier;            /* the call is a copy of an earlier request, which no answer of this process follows */
mtype calling, reply;       /* a call, and its answer */
byte its_epoch, its_join, its_splits, first[SPLITS], reply_got; /* `first`: the first rows of a commit */

inline copy_group(to, from) {
    to.last = from.last; to.generation = from.generation; to.planned = from.planned; to.position = from.position;
    to.ended = from.ended;
    to.status[0] = from.status[0]; to.status[1] = from.status[1]; to.status[2] = from.status[2];
    to.ordinal[0] = from.ordinal[0]; to.ordinal[1] = from.ordinal[1]; to.ordinal[2] = from.ordinal[2];
    to.shown[0] = from.shown[0]; to.shown[1] = from.shown[1]; to.shown[2] = from.shown[2];
    to.epoch[0] = from.epoch[0]; to.epoch[1] = from.epoch[1];
    to.joining[0] = from.joining[0]; to.joining[1] = from.joining[1];
    to.undelivered[0] = from.undelivered[0]; to.undelivered[1] = from.undelivered[1];
    to.answered[0] = from.answered[0]; to.answered[1] = from.answered[1];
    to.given[0] = from.given[0]; to.given[1] = from.given[1];
    to.missed[0] = from.missed[0]; to.missed[1] = from.missed[1];
    to.copy_given = from.copy_given;
    to.member[0] = from.member[0]; to.member[1] = from.member[1]
}

inline use(kind) {
    faults_left--;
    trace(ticks++);
    faults_used = faults_used | (EACH_FAULT << (kind))
}

/* One line of a trace: what happened, and what the service says after it. */
inline tell_state() {
    trace(printf("\"planned\": %d, \"position\": %d, \"status\": [%d, %d, %d], \"ordinals\": [%d, %d, %d]}\n",
        live.planned, live.position, live.status[0], live.status[1], live.status[2],
        live.ordinal[0], live.ordinal[1], live.ordinal[2]))
}

/* --- the service: what it decides about a call of reader `r`; the answer is in `reply` and `reply_got`. */

inline give_back(r) { /* the splits of a member are pending again, at their committed rows */
    for (s : 0 .. SPLITS - 1) {
        if
        :: live.status[s] == HELD_BY(r) ->
            live.status[s] = PENDING;
#ifdef BROKEN_ORDINAL_LOST
            live.ordinal[s] = 0
#endif
        :: else
        fi
    }
    s = 0;
    live.epoch[r] = 0; live.member[r] = 0; live.joining[r] = 0; live.undelivered[r] = 0;
    live.answered[r] = UNANSWERED; live.given[r] = 0; live.missed[r] = 0;
    dirty = true
}

inline decide_join(r, id) {
    if
    :: live.epoch[r] && live.joining[r] == id -> skip /* a repeated call is one call */
    :: else ->
#ifndef BROKEN_EPOCH_GIVEN_AGAIN
        live.last++;
#endif
        check(number, live.last > highest);
        live.epoch[r] = live.last; live.member[r] = live.last; live.joining[r] = id;
        live.undelivered[r] = 0; live.answered[r] = UNANSWERED; live.given[r] = 0; live.missed[r] = 0;
#ifndef BROKEN_HELD_NEVER_DELIVERED
        for (s : 0 .. SPLITS - 1) {
            if
            :: live.status[s] == HELD_BY(r) -> live.undelivered[r] = live.undelivered[r] | bit_of(s)
            :: else
            fi
        }
        s = 0;
#endif
        dirty = true
    fi;
    reply = joined; reply_got = live.epoch[r]
}

#ifdef BROKEN_EPOCH_UNCHECKED
#define is_member(r, e) (live.epoch[r] != 0)
#else
#define is_member(r, e) (live.epoch[r] != 0 && live.epoch[r] == (e))
#endif

/* The splits that the member has not received, then pending ones by commit. A split waits for the earlier splits of
 * its file group, unless they are done or with the same member. */
inline choose(r) {
    for (s : 0 .. SPLITS - 1) {
        if
        :: (live.undelivered[r] & bit_of(s)) -> chosen = chosen | bit_of(s); count++
        :: else
        fi
    }
    for (s : 0 .. SPLITS - 1) {
        is_waiting = 0;
#ifndef BROKEN_NO_ORDER
        for (t : 0 .. SPLITS - 1) {
            if
            :: t < s && lane_of(t) == lane_of(s) && live.status[t] != ABSENT && live.status[t] != DONE &&
                live.status[t] != HELD_BY(r) && !(chosen & bit_of(t)) -> is_waiting = 1
            :: else
            fi
        }
        t = 0;
#endif
        if
        :: !is_waiting && count < MAX_SPLITS && !(chosen & bit_of(s)) &&
#ifdef BROKEN_HELD_ASSIGNED_AGAIN
            (live.status[s] == PENDING || live.status[s] == HELD_BY(1 - (r))) ->
#else
            live.status[s] == PENDING ->
#endif
            chosen = chosen | bit_of(s); count++
        :: else
        fi
    }
    s = 0; count = 0; is_waiting = 0
}

#define is_copied(r, e) (copy_call == ask && copy_reader == (r) && copy_epoch == (e))

inline grant(r, e) { /* the chosen splits are with the member */
    for (s : 0 .. SPLITS - 1) {
        if
        :: (chosen & bit_of(s)) ->
            check(ownership, live.status[s] == PENDING || live.status[s] == HELD_BY(r));
            live.status[s] = HELD_BY(r)
        :: else
        fi
    }
    s = 0;
    check(fencing, live.member[r] == e);
    live.undelivered[r] = live.undelivered[r] & (7 ^ chosen);
    live.copy_given = live.copy_given || is_copied(r, e);
    dirty = true
}

/* A request after that of the copy: the member says which answer it received last. */
inline decide_ask(r, e) {
    if
    :: !is_member(r, e) -> reply = fenced
    :: else ->
        copy_answered = copy_answered || is_copied(r, e);
        if
        :: live.answered[r] == WITH_SPLITS -> /* the same answer, without what is finished by now */
            reply = splits;
            for (s : 0 .. SPLITS - 1) {
                if
                :: (live.given[r] & bit_of(s)) && live.status[s] == HELD_BY(r) -> reply_got = reply_got | bit_of(s)
                :: else
                fi
            }
            s = 0
        :: live.answered[r] == EMPTY -> reply = nothing
        :: else ->
#ifndef BROKEN_MISSED_NOT_DELIVERED
            chosen = live.missed[r];
#endif
            if
            :: chosen == 0 -> choose(r)
            :: else
            fi;
            if
            :: chosen ->
                grant(r, e);
                live.answered[r] = WITH_SPLITS; live.given[r] = chosen; live.missed[r] = 0;
                reply = splits; reply_got = chosen; chosen = 0
            :: else ->
                reply = nothing; /* not a record: a restart forgets it */
#ifndef BROKEN_EMPTY_ANSWER_FORGOTTEN
                live.answered[r] = EMPTY
#endif
            fi
        fi;
        if
        :: reply == nothing && live.ended && live.position == COMMITS -> reply = end
        :: else
        fi
    fi
}

/* A copy of an earlier request, after a restart that forgot its empty answer. Nobody hears the answer. */
inline decide_earlier_ask(r, e) {
    chosen = live.missed[r];
    if
    :: chosen == 0 -> choose(r)
    :: else
    fi;
    if
    :: chosen -> grant(r, e); live.missed[r] = chosen; reply = splits; reply_got = chosen; chosen = 0
    :: else -> reply = nothing
    fi
}

inline put_out(r, e, split, from, upto) { /* rows of a split are in the committed output */
    check(fencing, live.member[r] == e);
    check(exactly_once, from == live.shown[split]);
    for (t : 0 .. SPLITS - 1) {
        if
        :: t < split && lane_of(t) == lane_of(split) && commit_of(t) > live.position ->
            check(order, live.shown[t] == rows_of(t))
        :: else
        fi
    }
    t = 0;
    live.shown[split] = upto
}

inline settle() { /* the position moves over finished rounds, the oldest first */
    if
    :: live.position == 0 && live.planned >= 1 &&
#ifdef BROKEN_POSITION_BEFORE_THE_LAST_SPLIT
        (live.status[0] == DONE || live.status[1] == DONE) ->
#else
        live.status[0] == DONE && live.status[1] == DONE ->
#endif
        check(position, live.shown[0] == rows_of(0) && live.shown[1] == rows_of(1));
        live.position = 1;
        live.status[0] = ABSENT; live.status[1] = ABSENT; live.ordinal[0] = 0; live.ordinal[1] = 0
    :: else
    fi;
    if
    :: live.position == 1 && live.planned == 2 && live.status[2] == DONE ->
        check(position, live.shown[2] == rows_of(2));
        live.position = 2;
        live.status[2] = ABSENT; live.ordinal[2] = 0
    :: else
    fi
}

/* A commit of the splits `what`: all of their rows, or one more row. `first` has the first row of each. */
inline decide_commit(r, e, some, is_part) {
    if
    :: !is_member(r, e) -> reply = fenced
    :: else ->
        reply = committed;
        for (s : 0 .. SPLITS - 1) {
            if
            :: (some & bit_of(s)) &&
#ifndef BROKEN_REPEATED_COMMIT_UNKNOWN
                live.status[s] != DONE && commit_of(s) > live.position && /* a repeated commit has no effect */
#endif
#ifdef BROKEN_EPOCH_UNCHECKED
                live.status[s] != HELD_BY(r) -> reply = unknown
#else
                (live.status[s] != HELD_BY(r) || (live.undelivered[r] & bit_of(s))) -> reply = unknown /* nothing is committed */
#endif
            :: else
            fi
        }
        for (s : 0 .. SPLITS - 1) {
            if
            :: reply == committed && (some & bit_of(s)) && live.status[s] == HELD_BY(r) ->
                if
                :: is_part && first[s] + 1 > live.ordinal[s] ->
                    put_out(r, e, s, first[s], first[s] + 1);
                    live.ordinal[s] = first[s] + 1
                :: is_part && first[s] + 1 <= live.ordinal[s] -> skip /* an older copy: progress never moves back */
                :: !is_part ->
                    put_out(r, e, s, first[s], rows_of(s));
                    live.status[s] = DONE; live.ordinal[s] = 0
                fi
            :: else
            fi
        }
        s = 0;
        if
        :: reply == committed -> dirty = true; settle()
        :: else
        fi
    fi
}

inline decide_leave(r, e) {
    if
    :: live.epoch[r] && live.epoch[r] == (e) -> give_back(r)
    :: else
    fi;
    reply = gone
}

inline decide_beat(r, e) {
    if
    :: is_member(r, e) -> reply = alive
    :: else -> reply = fenced
    fi
}

/* Plans the round of the next commit, or notes the end, if the group is still where the discovery began. */
inline discovered(at, from) {
    if
#ifdef BROKEN_STALE_DISCOVERY_ACCEPTED
    :: from < COMMITS ->
#else
    :: at == live.generation && from == live.planned && from < COMMITS ->
#endif
        check(position, from == live.planned);
        live.planned = from + 1;
        live.ended = (live.planned == COMMITS);
        for (s : 0 .. SPLITS - 1) {
            if
            :: commit_of(s) == live.planned -> live.status[s] = PENDING; live.ordinal[s] = 0
            :: else
            fi
        }
        s = 0;
        dirty = true
    :: at == live.generation && from == live.planned && from == COMMITS -> live.ended = true; dirty = true
    :: else
    fi
}

inline moved(to) { /* an operator resets the group: a new generation, without members */
    live.last++;
    live.generation = live.last; live.planned = to; live.position = to; live.ended = false;
    for (s : 0 .. SPLITS - 1) { live.status[s] = ABSENT; live.ordinal[s] = 0; live.shown[s] = 0 }
    s = 0;
    for (t : 0 .. READERS - 1) {
        live.member[t] = 0;
#ifndef BROKEN_RESET_FENCES_NOBODY
        live.epoch[t] = 0; live.joining[t] = 0;
#endif
        live.undelivered[t] = 0; live.answered[t] = UNANSWERED; live.given[t] = 0; live.missed[t] = 0
    }
    t = 0;
    dirty = true
}

inline restarted() { /* a process reads the log; answers that were not heard and discoveries are gone */
    copy_group(live, kept);
    dirty = false;
    for (t : 0 .. READERS - 1) {
        client[t].answer = none; client[t].got = 0;
        if
        :: live.answered[t] == EMPTY -> live.answered[t] = UNANSWERED; kept.answered[t] = UNANSWERED
        :: else
        fi
    }
    t = 0;
    copy_answered = false;
    looking = false; looking_generation = 0; looking_start = 0;
    again = false; again_generation = 0; again_start = 0
}

inline drop_copy() {
    copy_call = none; copy_reader = 0; copy_epoch = 0; copy_join = 0; copy_what = 0; copy_newest = false;
    copy_answered = false; live.copy_given = false; kept.copy_given = false;
    copy_start[0] = 0; copy_start[1] = 0; copy_start[2] = 0
}

/* --- readers */

inline outdated(r) { /* copies of earlier calls are not its newest call any more */
    if
    :: copy_call != none && copy_reader == r -> copy_newest = false
    :: else
    fi
}

inline next_join(r) {
    outdated(r);
    client[r].epoch = 0; client[r].held = 0; client[r].what = 0;
    client[r].start[0] = 0; client[r].start[1] = 0; client[r].start[2] = 0;
    client[r].joins++;
    client[r].call = join
}

inline next_ask(r) { /* with a new number: the service has not answered it */
    outdated(r);
    client[r].what = 0;
    live.answered[r] = UNANSWERED; live.given[r] = 0;
    kept.answered[r] = UNANSWERED; kept.given[r] = 0;
    client[r].call = ask;
    trace(printf("{\"step\": \"next\", \"reader\": %d}\n", r))
}

inline oldest_held(r) { /* in s */
    if
    :: (client[r].held & 1) -> s = 0
    :: !(client[r].held & 1) && (client[r].held & 2) -> s = 1
    :: else -> s = 2
    fi
}

inline next_call(r) {
    if
    :: client[r].held == 0 -> next_ask(r)
    :: else ->
        outdated(r);
        oldest_held(r);
        if
        :: client[r].call = finish; client[r].what = bit_of(s)
        :: rows_of(s) - client[r].start[s] > 1 -> client[r].call = part; client[r].what = bit_of(s)
        :: client[r].held != bit_of(s) -> client[r].call = finish; client[r].what = client[r].held
        fi;
        s = 0
    fi
}

inline check_durable(r) { /* what an answer says is in the durable log, unless the member is gone */
    if
    :: client[r].answer == joined -> check(durable, client[r].got <= kept.last)
    :: client[r].answer == splits && kept.member[r] == client[r].epoch ->
        for (s : 0 .. SPLITS - 1) {
            check(durable, !(client[r].got & bit_of(s)) || kept.status[s] == HELD_BY(r))
        }
        s = 0
    :: client[r].answer == committed && kept.member[r] == client[r].epoch ->
        for (s : 0 .. SPLITS - 1) {
            check(durable, !(client[r].what & bit_of(s)) || kept.shown[s] > client[r].start[s])
        }
        s = 0
    :: else
    fi
}

inline heard(r) {
    check_durable(r);
    if
    :: client[r].call == join ->
        check(answers, client[r].answer == joined);
        highest = (client[r].got > highest -> client[r].got : highest);
        client[r].epoch = client[r].got;
        next_ask(r)
    :: client[r].call != join && client[r].answer == fenced -> next_join(r)
    :: client[r].call == ask && client[r].answer == splits ->
        check(answers, client[r].got != 0);
        client[r].held = client[r].got;
        next_call(r)
    :: client[r].call == ask && (client[r].answer == nothing || client[r].answer == end) -> next_ask(r)
    :: client[r].call == part && client[r].answer == committed ->
        client[r].start[0] = client[r].start[0] + (client[r].what & 1);
        next_call(r)
    :: client[r].call == finish && client[r].answer == committed ->
        client[r].held = client[r].held & (7 ^ client[r].what);
        for (s : 0 .. SPLITS - 1) {
            if
            :: (client[r].what & bit_of(s)) -> client[r].start[s] = 0
            :: else
            fi
        }
        s = 0;
        next_call(r)
    :: client[r].call == leave && client[r].answer == gone -> next_join(r)
    :: else -> check(answers, false)
    fi;
    client[r].answer = none; client[r].got = 0
}

inline deliver(r) { /* the message of reader `r` reaches the service */
    trace(ticks++);
    trace(printf("{\"step\": \"%e\", \"reader\": %d, \"epoch\": %d, \"join\": %d, \"what\": %d, ", calling, r, its_epoch, its_join, its_splits));
    trace(printf("\"from\": [%d, %d, %d], ", first[0], first[1], first[2]));
    if
    :: calling == join -> decide_join(r, its_join)
    :: calling == ask && !is_earlier -> decide_ask(r, its_epoch)
    :: calling == ask && is_earlier -> decide_earlier_ask(r, its_epoch)
    :: calling == part -> decide_commit(r, its_epoch, its_splits, true)
    :: calling == finish -> decide_commit(r, its_epoch, its_splits, false)
    :: calling == leave -> decide_leave(r, its_epoch)
    :: calling == beat -> decide_beat(r, its_epoch)
    fi;
    trace(printf("\"answer\": \"%e\", \"got\": %d, ", reply, reply_got))
}

inline delivered() {
    calling = none; its_epoch = 0; its_join = 0; its_splits = 0; reply = none; reply_got = 0;
    first[0] = 0; first[1] = 0; first[2] = 0
}

proctype log() {
    do
    :: d_step { dirty && !over -> copy_group(kept, live); dirty = false; trace(printf("{\"step\": \"synced\"}\n")) }
    od
}

proctype writer() {
    do
    :: d_step { visible < COMMITS && !over -> visible++; trace(printf("{\"step\": \"commit\", \"visible\": %d}\n", visible)) }
    :: visible == COMMITS -> break
    od
}

proctype discovery() {
    do
    :: d_step { !looking && !live.ended && (live.planned < visible || live.planned == COMMITS) && !over ->
        looking = true; looking_generation = live.generation; looking_start = live.planned;
        trace(printf("{\"step\": \"reads\", \"generation\": %d, \"from\": %d}\n", looking_generation, looking_start)) }
    :: d_step { looking && !over ->
        trace(printf("{\"step\": \"discovered\", \"generation\": %d, \"from\": %d, ", looking_generation, looking_start));
        discovered(looking_generation, looking_start);
        looking = false; looking_generation = 0; looking_start = 0;
        tell_state() }
    :: d_step { again && !over ->
        trace(printf("{\"step\": \"discovered\", \"generation\": %d, \"from\": %d, ", again_generation, again_start));
        discovered(again_generation, again_start);
        again = false; again_generation = 0; again_start = 0;
        tell_state() }
    od
}

/* A fault of a kind; `n`: the reader, or the position of a reset. */
#define fault(n, kind, condition, effect) :: d_step { may(kind) && condition(n) && !over -> use(kind); effect(n) }
#define is_joined(r) (live.epoch[r] != 0)
#define is_waiting_for(r) (client[r].answer != none)
#define is_sent(r) (client[r].answer == none && copy_call == none)
#define is_idle(r) (client[r].answer == none && client[r].call == ask)
#define is_calling(r) (client[r].epoch != 0 && !dirty)
#define is_visible(p) (visible >= (p))

inline expire(r) {
    trace(printf("{\"step\": \"expired\", \"reader\": %d, ", r));
    give_back(r);
    tell_state()
}
inline lose_answer(r) { client[r].answer = none; client[r].got = 0 }
inline double(r) {
    copy_call = client[r].call; copy_reader = r; copy_epoch = client[r].epoch; copy_join = client[r].joins;
    copy_what = client[r].what; copy_newest = true;
    if
    :: copy_call == ask ->
        copy_answered = (live.answered[r] != UNANSWERED);
        live.copy_given = (live.answered[r] == WITH_SPLITS); kept.copy_given = (kept.answered[r] == WITH_SPLITS);
        trace(printf("{\"step\": \"doubled\", \"reader\": %d}\n", r))
    :: else
    fi;
    copy_start[0] = client[r].start[0]; copy_start[1] = client[r].start[1]; copy_start[2] = client[r].start[2]
}
inline double_discovery(unused) { again = true; again_generation = looking_generation; again_start = looking_start }
inline reset(p) {
    trace(printf("{\"step\": \"reset\", \"to\": %d, ", p));
    moved(p);
    trace(printf("\"generation\": %d, ", live.generation));
    tell_state()
}
inline kill_reader(r) { client[r].answer = none; client[r].got = 0; next_join(r) } /* it starts again under its id */
inline start_leaving(r) { outdated(r); client[r].call = leave; client[r].what = 0 }
inline beat_once(r) { /* beside its other calls; a fenced reader drops its splits */
    calling = beat; its_epoch = client[r].epoch;
    deliver(r);
    trace(printf("\"copy\": 0, "));
    tell_state();
    if
    :: reply == fenced -> client[r].answer = none; client[r].got = 0; next_join(r)
    :: else
    fi;
    delivered()
}
inline restart(is_synced) {
    if
    :: is_synced -> copy_group(kept, live)
    :: else
    fi;
    trace(printf("{\"step\": \"restart\", \"synced\": %d, ", is_synced));
    restarted();
    tell_state()
}
#define always(unused) true
#define only_if_dirty(unused) dirty
#define is_looking(unused) (looking && !again)
inline restart_lossy(unused) { restart(0) }
inline restart_synced(unused) { restart(1) }

proctype reader(byte me) {
    do
    :: d_step { client[me].answer == none && !over ->
        calling = client[me].call; its_epoch = client[me].epoch; its_join = client[me].joins;
        its_splits = client[me].what;
        first[0] = client[me].start[0]; first[1] = client[me].start[1]; first[2] = client[me].start[2];
        deliver(me);
        trace(printf("\"copy\": 0, "));
        tell_state();
        if
        :: reply == splits ->
            for (s : 0 .. SPLITS - 1) {
                if
                :: (reply_got & bit_of(s)) -> client[me].start[s] = live.ordinal[s]
                :: else
                fi
            }
            s = 0
        :: else
        fi;
        client[me].answer = reply; client[me].got = reply_got;
        delivered() }
#ifdef BROKEN_ANSWERS_BEFORE_SYNC
    :: atomic { client[me].answer != none && !over -> heard(me) }
#else
    :: atomic { client[me].answer != none && !dirty && !over -> heard(me) }
#endif
    fault(me, EXPIRY, is_joined, expire)
    fault(me, ANSWER_LOST, is_waiting_for, lose_answer)
    fault(me, CALL_DOUBLED, is_sent, double)
    fault(me, KILL, always, kill_reader)
    fault(me, LEAVING, is_idle, start_leaving)
    fault(me, HEARTBEAT, is_calling, beat_once)
    od
}

proctype faults() {
    do
    fault(0, RESTART, always, restart_lossy)
    fault(0, RESTART, only_if_dirty, restart_synced)
    fault(0, DISCOVERY_DOUBLED, is_looking, double_discovery)
    fault(0, RESET, is_visible, reset)
    fault(1, RESET, is_visible, reset)
    fault(2, RESET, is_visible, reset)
    :: d_step { copy_call != none && copy_arrives && !over ->
        /* A copy of an earlier request has a lower number: it has no effect, unless a restart forgot that its request
         * was answered, and no later one of its reader was answered since. */
        if
        :: copy_call != ask || copy_newest || copy_epoch != live.epoch[copy_reader] || !(live.copy_given || copy_answered) ->
            calling = copy_call; its_epoch = copy_epoch; its_join = copy_join; its_splits = copy_what;
            first[0] = copy_start[0]; first[1] = copy_start[1]; first[2] = copy_start[2];
            is_earlier = (copy_call == ask && !copy_newest && copy_epoch == live.epoch[copy_reader]);
            deliver(copy_reader);
            is_earlier = false;
            trace(printf("\"copy\": 1, "));
            tell_state()
        :: else
        fi;
        delivered();
        drop_copy() }
    od
}

init {
    atomic {
        trace(printf("{\"spec\": \"group\", \"version\": %d, \"splits\": %d, \"commits\": %d, \"max_splits\": %d, \"rows\": %d}\n",
            SPEC_VERSION, SPLITS, COMMITS, MAX_SPLITS, ROWS));
        client[0].joins = 1; client[0].call = join; client[1].joins = 1; client[1].call = join;
        live.last = 1; live.generation = 1; kept.last = 1; kept.generation = 1;
        run reader(0); run reader(1); run log(); run writer(); run discovery(); run faults();
#ifdef TRACE
        run stopper()
#endif
    }
}

#ifdef TRACE
proctype stopper() {
    d_step { finished && !copy_call && !again && !looking -> over = true; printf("{\"step\": \"end\"}\n") }
}
#endif

#ifdef LIVENESS
ltl liveness { <>[] finished }
#endif
