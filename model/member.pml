/*
 * Who sees what: ben is in the conversation from seq 1, leaves, and comes back;
 * ana writes, and takes her first message back. Pushes and pages to ben's device
 * are lost, doubled and overtaken; ana's send arrives twice.
 *
 * What each of these takes out, and the invariant that must then be seen to break:
 *
 * THROUGH_SKIPS_VISIBLE      D3   through passes over no event that may be seen
 * THROUGH_STOPS              D5   through passes over what may not be seen
 * PUSH_TO_ALL                D8   a push goes to those who may see the event
 * AUDIENCE_CACHED            D8   the audience is read with the event, not before it
 * PAGE_OF_ALL                D8   a page holds what may be seen
 * HEAD_OF_ALL                D8   head and through are those of the user
 * LEAVE_UNSEEN               D8   one's own leave is the last event of a period
 * RECALL_KEEPS_BODY          D17  a recall empties its target, where it is stored
 * RECALL_FREES_KEY           D17  the dedup row of a recalled message stays
 * RECALL_BY_PERIOD           D17  a recall is visible to whoever may see its target
 * RECALL_LEAVES_DEVICE       D17  a recall empties its target on the device
 * RECALL_NOT_REMEMBERED      D17  an event is stored empty when its recall was stored before it
 *
 * What must be reachable in the sound model:
 *
 * PROBE_BACK                 ben has left and come back, and his cursor is past it
 * PROBE_RECALLED_OUTSIDE     a recall is written while ben is not a member
 * PROBE_OVER_INVISIBLE       a page moves the cursor over what ben may not see
 * PROBE_RECALL_FIRST         a recall is stored before its target
 * PROBE_BODY_UNDER_WAY       a push with the body is under way when it is recalled
 * PROBE_RESENT               the send of a recalled message arrives again
 */

#define ROWS 6 /* one more than should ever be written */

#define higher(a, b)  ((a) > (b) -> (a) : (b))

/* How many things may still go wrong, of any kind. */
#ifndef FAULTS
#define FAULTS 2
#endif
byte faults = FAULTS;

/* The log: ana's first message, another one, the recall of the first, ben's
 * leave and his return, each once and in any order that makes sense. */
mtype = { first, text, recall, leave, join };
mtype log[ROWS + 1];
byte rows = 0;
byte firstAt = 0, textAt = 0, recallAt = 0, leaveAt = 0, joinAt = 0;
bool body = false;   /* the row of the first message has its body */
bool key = false;    /* and a dedup row */
bool resent = false; /* its send has arrived again */

/* What ben may see: all up to his leave, all from his return, and the recall
 * of what he may see. Nobody sees a row that is not there. */
#define inPeriod(s)   (leaveAt == 0 || (s) <= leaveAt || joinAt != 0 && (s) >= joinAt)
#define sees(s)       ((s) <= rows && (inPeriod(s) || log[s] == recall && inPeriod(firstAt)))
#define head          (sees(6) -> 6 : (sees(5) -> 5 : (sees(4) -> 4 : (sees(3) -> 3 : (sees(2) -> 2 : (sees(1) -> 1 : 0))))))

/* What the server takes for it, and for his head. */
#ifdef LEAVE_UNSEEN
#define serves(s)     (sees(s) && log[s] != leave)
#else
#ifdef RECALL_BY_PERIOD
#define serves(s)     ((s) <= rows && inPeriod(s))
#else
#define serves(s)     sees(s)
#endif
#endif
#ifdef HEAD_OF_ALL
#define servedHead    rows
#else
#define servedHead    (serves(6) -> 6 : (serves(5) -> 5 : (serves(4) -> 4 : (serves(3) -> 3 : (serves(2) -> 2 : (serves(1) -> 1 : 0))))))
#endif

byte pushed = 0; /* how far the server has pushed */
#ifdef AUDIENCE_CACHED
bool audience = true; /* whether ben is a member, as the server remembers it */
#endif

/* Under way to ben's device: pushes, whether one has the body of the first
 * message, one page. */
bool push[ROWS + 1], pushBody = false;
bool page = false, pageBody = false;
byte pageEvent = 0, through = 0;

/* Ben's device. Of the body of the first message it is told apart whether it is held. */
bool held[ROWS + 1], heldBody = false;
byte cursor = 0;
bool behind = true; /* it asks for a page, as it does when it has just connected */

#define pushing       (push[1] || push[2] || push[3] || push[4] || push[5] || push[6])
#define quiet         (!pushing && !page && !behind && pushed == rows)
#define has(s)        (!sees(s) || held[s])
#define hasTo(c)      ((c < 1 || has(1)) && (c < 2 || has(2)) && (c < 3 || has(3)) && (c < 4 || has(4)) && (c < 5 || has(5)) && (c < 6 || has(6)))

inline append(kind, place) {
	rows++;
	log[rows] = kind;
	place = rows
}

active proctype Others() {
end:	do
	:: atomic { /* append the first message */ firstAt == 0 -> append(first, firstAt); body = true; key = true }
	:: atomic { /* append another message */ textAt == 0 -> append(text, textAt) }
	:: atomic { /* the network had kept a copy of ana's send */
		firstAt != 0 && !resent && faults > 0 ->
		faults--;
		resent = true;
#ifdef PROBE_RESENT
		assert(recallAt == 0); /* PROBE_RESENT */
#endif
#ifdef RECALL_FREES_KEY
		if
		:: key
		:: else -> rows++; log[rows] = first; assert(false); /* D17 */
		fi
#endif
		skip /* a duplicate */
	   }
	:: atomic { /* recall the first message */ firstAt != 0 && recallAt == 0 ->
#ifdef PROBE_RECALLED_OUTSIDE
		assert(leaveAt == 0 || joinAt != 0); /* PROBE_RECALLED_OUTSIDE */
#endif
#ifdef PROBE_BODY_UNDER_WAY
		assert(!pushBody); /* PROBE_BODY_UNDER_WAY */
#endif
#ifdef RECALL_FREES_KEY
		key = false;
#endif
#ifndef RECALL_KEEPS_BODY
		body = false;
#endif
		append(recall, recallAt)
	   }
	:: atomic { /* leave */ leaveAt == 0 -> append(leave, leaveAt) }
	:: atomic { /* join again */ leaveAt != 0 && joinAt == 0 -> append(join, joinAt) }
	:: break
	od
}

active proctype Server() {
	byte s;
end:	do
#ifdef AUDIENCE_CACHED
	:: atomic { /* the cached audience is looked up anew */ audience != inPeriod(rows) -> audience = !audience }
#endif
	:: atomic { /* push to those who may see the event, or lose it */
		pushed < rows ->
		pushed++;
		if
#ifdef PUSH_TO_ALL
		:: true ->
#else
#ifdef AUDIENCE_CACHED
		:: audience ->
#else
		:: serves(pushed) ->
#endif
#endif
			if
			:: push[pushed] = true;
				pushBody = pushBody || log[pushed] == first && body;
				assert(sees(pushed)); /* D8 */
				assert(log[pushed] != first || !body || recallAt == 0) /* D17 */
			:: faults > 0 -> faults--
			fi
		:: else
		fi
	   }
	:: atomic { /* a page of one event, after the cursor */
		behind && !page ->
		behind = false;
		page = true;
		s = cursor + 1;
		do
#ifdef PAGE_OF_ALL
		:: s <= rows && s <= servedHead -> break
#else
		:: s <= rows && serves(s) -> break
#endif
		:: s > rows -> break
		:: else -> s++
		od;
		if
		:: s <= rows ->
			pageEvent = s;
			pageBody = (log[s] == first && body);
			through = s;
			assert(sees(s)); /* D8 */
			assert(!pageBody || recallAt == 0) /* D17 */
		:: else -> through = cursor
		fi;
#ifdef PROBE_OVER_INVISIBLE
		assert(s > rows || s == cursor + 1); /* PROBE_OVER_INVISIBLE */
#endif
#ifdef THROUGH_SKIPS_VISIBLE
		through = servedHead;
#endif
#ifdef HEAD_OF_ALL
		through = (s >= rows -> servedHead : through);
#endif
#ifdef THROUGH_STOPS
		through = (s == cursor + 1 -> through : cursor);
#endif
		assert(through <= higher(head, cursor)); /* D8 */
		s = 0
	   }
	:: atomic { /* sweep: the device lags; its hint names the head */
		quiet && cursor < servedHead ->
		behind = true;
		assert(servedHead <= head) /* D8 */
	   }
	od
}

/* store puts an event, once. The body of a recalled message is not kept. */
inline store(e, withBody) {
	if
	:: held[e]
	:: else ->
		held[e] = true;
		if
		:: log[e] == first ->
#ifdef PROBE_RECALL_FIRST
			assert(!(withBody && recallAt != 0 && held[recallAt])); /* PROBE_RECALL_FIRST */
#endif
#ifdef RECALL_NOT_REMEMBERED
			heldBody = withBody
#else
			heldBody = withBody && !(recallAt != 0 && held[recallAt])
#endif
#ifndef RECALL_LEAVES_DEVICE
		:: log[e] == recall -> heldBody = false
#endif
		:: else
		fi
	fi;
	do
	:: cursor < ROWS && held[cursor + 1] -> cursor++
	:: else -> break
	od;
#ifdef PROBE_BACK
	assert(joinAt == 0 || cursor < joinAt); /* PROBE_BACK */
#endif
	assert(recallAt == 0 || !held[recallAt] || !heldBody) /* D17 */
}

active proctype Device() {
	byte s;
end:	do
	:: atomic { /* a pushed event, in whatever order they come */
		pushing ->
		if
		:: push[1] -> s = 1
		:: push[2] -> s = 2
		:: push[3] -> s = 3
		:: push[4] -> s = 4
		:: push[5] -> s = 5
		:: push[6] -> s = 6
		fi;
		store(s, pushBody);
		if
		:: push[s] = false; pushBody = pushBody && s != firstAt
		:: faults > 0 -> faults--
		fi;
		behind = behind || s > cursor;
		s = 0
	   }
	:: atomic { /* a page, or its loss */
		page ->
		if
		:: pageEvent != 0 -> store(pageEvent, pageBody); cursor = higher(cursor, through); behind = true
		:: pageEvent == 0 -> cursor = higher(cursor, through)
		:: faults > 0 -> faults--
		fi;
		assert(hasTo(cursor)); /* D3 */
		page = false; pageEvent = 0; pageBody = false; through = 0
	   }
	od
}

active proctype Faults() {
end:	do
	:: atomic { /* nothing goes wrong any more */ faults > 0 -> faults = 0 }
	od
}

/* Where a run ends, ben's device has what he may see, and no body that was recalled. */
active proctype End() {
end:	timeout;
	assert(recallAt == 0 || !inPeriod(firstAt) || !heldBody); /* D17 */
	assert(leaveAt == 0 || held[leaveAt]); /* D8 */
	assert(hasTo(head) && cursor == head) /* D5 */
}
