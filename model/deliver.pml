/*
 * The road out: writers append, the server pushes, retries, hints and answers
 * pages; a device stores, moves its cursor, and acknowledges. The network loses,
 * doubles and overtakes; the server and the device crash.
 *
 * What each of these takes out, and the invariant that must then be seen to break:
 *
 * PUSH_COUNTS                D3   a push moves no cursor
 * ACK_BEFORE_STORE           D3   an ack follows the durable write
 * CURSOR_BEFORE_STORE        D3   events and cursor are one durable write
 * CURSOR_OVER_GAP            D3   a pushed event moves the cursor only to the end of the unbroken run
 * THROUGH_AT_HEAD            D3   a page that ends early has its through at its last event
 * LAST_ACK_WINS              D4   the server takes the higher of cursor and ack
 * NO_SWEEP                   D5   somebody looks for lost pushes
 * LAGGARD_FORGOTTEN          D5   a device that lags is hinted until it has caught up
 * HINT_UNHEARD               D5   a device syncs on a hint
 * SEQ_OUTSIDE                D7   the seq is taken in the transaction that commits it
 * RETRY_FOR_EVER             D10  retries of one flow end after four attempts
 *
 * What must be reachable in the sound model:
 *
 * PROBE_CRASH_BEFORE_ACK     the device dies between its write and its ack
 * PROBE_STORED_TWICE         an event arrives that is stored already
 * PROBE_GAP                  a push arrives ahead of the one before it
 * PROBE_STALE_ACK            an ack arrives after a higher one
 * PROBE_SPENT                the fourth attempt is made
 * PROBE_SWEPT                a sweep finds a device that nobody retries
 * PROBE_MORE                 a page ends before head
 * PROBE_ABORTED              a transaction that has taken a seq is rolled back
 */

#define EVENTS   3
#define PAGE     1 /* events of a page, at most */
#define ATTEMPTS 4

/* How many things may still go wrong, of any kind. */
#ifndef FAULTS
#define FAULTS 4
#endif
byte faults = FAULTS;

/* The store: which seqs have committed, the highest of them, the device's cursor. */
bool there[EVENTS + 1];
byte head = 0, delivered = 0;
byte begun = 0; /* events that are written or being written */
bool locked = false;

/* The server's memory: what it has pushed, attempts of the flow, all lost with it. */
byte pushed = 0, attempts = 0;
bool connected = false;
#ifdef LAGGARD_FORGOTTEN
byte swept = 0;
#endif

/* The device: durably what it holds and its cursor; in memory that it owes an ack. */
bool held[EVENTS + 1];
byte cursor = 0;
bool owes = false;
bool mute = false; /* it reads and answers nothing any more */
#ifdef ACK_BEFORE_STORE
byte pending = 0;
#endif
#ifdef CURSOR_BEFORE_STORE
byte pending = 0;
#endif

/* The network. Of a page: its first and last place + 1, and its through. */
bool push[EVENTS + 1], ack[EVENTS + 1], hint = false, pull = false;
byte sync = 0; /* asks after this place - 1; 0: nothing is asked */
byte pageFrom = 0, pageTo = 0, through = 0;
bool page = false;

#define allThere      ((head < 1 || there[1]) && (head < 2 || there[2]) && (head < 3 || there[3]))
#define heldTo(s)     ((s < 1 || held[1]) && (s < 2 || held[2]) && (s < 3 || held[3]))
#define pushing       (push[1] || push[2] || push[3])
#define acking        (ack[1] || ack[2] || ack[3])
#define quiet         (!pushing && !acking && !hint && !pull && sync == 0 && !page && !owes)
#ifdef RETRY_FOR_EVER
#define left          true
#else
#define left          (attempts < ATTEMPTS)
#endif
#define higher(a, b)  ((a) > (b) -> (a) : (b))
#define lower(a, b)   ((a) < (b) -> (a) : (b))

/* hangUp cuts the connection, with all that is under way on it. An ack may
 * have arrived before the cut and be handled after it. */
inline hangUp() {
	connected = false;
	push[1] = false; push[2] = false; push[3] = false;
	hint = false; pull = false; sync = 0;
	page = false; pageFrom = 0; pageTo = 0; through = 0;
	pushed = 0; attempts = 0;
	owes = false
}

/* A transaction that appends one event. The lock is the row of the conversation. */
active [2] proctype Writer() {
	byte seq = 0;
end:	do
	:: atomic { /* begin to append an event */
#ifdef SEQ_OUTSIDE
		begun < EVENTS ->
		begun++;
		seq = begun
#else
		begun < EVENTS && !locked ->
		begun++;
		locked = true;
		seq = head + 1
#endif
	   };
	   if
	   :: atomic { /* commit */
		there[seq] = true;
		head = higher(head, seq);
		locked = false;
		seq = 0
	      }
	   :: atomic { /* roll back */
		faults > 0 ->
#ifdef PROBE_ABORTED
		assert(false); /* PROBE_ABORTED */
#endif
		faults--;
#ifndef SEQ_OUTSIDE
		begun--;
#endif
		locked = false;
		seq = 0
	      }
	   fi
	od
}

active proctype Server() {
	byte s;
end:	do
	:: atomic { /* push, with its retry registered before */
		connected && pushed < head ->
		pushed++;
		assert(allThere); /* D7 */
		push[pushed] = true;
		attempts = higher(attempts, 1);
#ifdef PUSH_COUNTS
		delivered = higher(delivered, pushed);
		assert(heldTo(delivered)); /* D3 */
#endif
	   }
	:: atomic { /* the wake-up is lost: nobody pushes, nobody retries */
		faults > 0 && connected && pushed < head ->
		faults--;
		pushed++
	   }
	:: atomic { /* an ack */
		acking ->
		if
		:: ack[1] -> s = 1
		:: ack[2] -> s = 2
		:: ack[3] -> s = 3
		fi;
		if
		:: ack[s] = false
		:: faults > 0 -> faults--
		fi;
		assert(heldTo(s)); /* D3 */
#ifdef PROBE_STALE_ACK
		assert(s >= delivered); /* PROBE_STALE_ACK */
#endif
#ifndef LAST_ACK_WINS
		s = higher(s, delivered);
#endif
		assert(s >= delivered && s <= head); /* D4 */
		if
		:: s != delivered -> delivered = s; attempts = 0
		:: else
		fi;
		s = 0
	   }
	:: atomic { /* answer a sync or a pull with a page */
		!page && (sync != 0 || pull) ->
		assert(allThere); /* D7 */
		if
		:: sync != 0 -> pageFrom = sync; sync = 0
		:: pull -> pageFrom = delivered + 1; pull = false
		fi;
		page = true;
		pageTo = lower(head, pageFrom + PAGE - 1);
		through = pageTo;
#ifdef PROBE_MORE
		assert(pageTo == head); /* PROBE_MORE */
#endif
#ifdef THROUGH_AT_HEAD
		through = head
#endif
	   }
	:: atomic { /* retry: the flow has not moved */
		connected && quiet && delivered < head && attempts > 0 && left ->
		attempts++;
#ifdef PROBE_SPENT
		assert(attempts < ATTEMPTS); /* PROBE_SPENT */
#endif
		assert(attempts <= ATTEMPTS); /* D10 */
		hint = true
	   }
#ifndef NO_SWEEP
	:: atomic { /* sweep: a device that shows to be alive lags */
		connected && quiet && !mute && delivered < head && (attempts == 0 || attempts == ATTEMPTS) ->
#ifdef PROBE_SWEPT
		assert(false); /* PROBE_SWEPT */
#endif
#ifdef LAGGARD_FORGOTTEN
		swept < head ->
		swept = head;
#endif
		hint = true
	   }
#endif
	od
}

/* store puts an event and moves the cursor, in one durable write. */
inline store(e) {
#ifdef PROBE_STORED_TWICE
	assert(!held[e]); /* PROBE_STORED_TWICE */
#endif
	held[e] = true;
#ifdef CURSOR_OVER_GAP
	cursor = higher(cursor, e);
#endif
	do
	:: cursor < EVENTS && held[cursor + 1] -> cursor++
	:: else -> break
	od
}

active proctype Device() {
	byte s;
end:	do
	:: atomic { /* connect, sub, pull */
		!connected && !mute ->
		connected = true;
		pushed = head;
		pull = true
	   }
	:: atomic { /* a pushed event */
		pushing && !mute ->
		if
		:: push[1] -> s = 1
		:: push[2] && (!push[1] || faults > 0) -> s = 2
		:: push[3] && (!(push[1] || push[2]) || faults > 0) -> s = 3
		fi;
		if
		:: push[1] && s > 1 || push[2] && s > 2 -> faults-- /* it has overtaken another */
		:: else
		fi;
		if
		:: push[s] = false
		:: faults > 0 -> faults--
		fi;
#ifdef ACK_BEFORE_STORE
		if
		:: s == cursor + 1 -> ack[s] = true
		:: else
		fi;
		pending = s;
	   };
	   atomic { /* store the event */
		if
		:: pending != 0 -> s = pending; pending = 0
		:: else -> goto end
		fi;
#endif
#ifdef CURSOR_BEFORE_STORE
		if
		:: s == cursor + 1 -> cursor = s; pending = s
		:: else
		fi;
	   };
	   atomic { /* store the event */
		if
		:: pending != 0 -> s = pending; pending = 0
		:: else -> goto end
		fi;
#endif
		store(s);
		if
		:: s <= cursor -> owes = true
		:: else ->
#ifdef PROBE_GAP
			assert(false); /* PROBE_GAP */
#endif
			sync = cursor + 1
		fi;
		s = 0
	   }
	:: atomic { /* a page */
		page && !mute ->
		s = pageFrom;
		do
		:: s <= pageTo -> store(s); s++
		:: else -> break
		od;
		cursor = higher(cursor, through);
		owes = true;
		if
		:: pageTo >= pageFrom -> sync = cursor + 1 /* there may be more */
		:: else
		fi;
		page = false; pageFrom = 0; pageTo = 0; through = 0;
		s = 0
	   }
	:: atomic { /* a hint */
		hint && !mute ->
		hint = false;
#ifndef HINT_UNHEARD
		sync = cursor + 1
#endif
	   }
	:: atomic { /* acknowledge up to the cursor */ owes && connected && !mute -> owes = false; if :: cursor > 0 -> ack[cursor] = true :: else fi }
	od
}

active proctype Faults() {
end:	do
	:: atomic { /* a push is lost */ faults > 0 && push[1] -> faults--; push[1] = false }
	:: atomic { /* a push is lost */ faults > 0 && push[2] -> faults--; push[2] = false }
	:: atomic { /* a push is lost */ faults > 0 && push[3] -> faults--; push[3] = false }
	:: atomic { /* acks are lost */ faults > 0 && acking -> faults--; ack[1] = false; ack[2] = false; ack[3] = false }
	:: atomic { /* a hint is lost */ faults > 0 && hint -> faults--; hint = false }
	:: atomic { /* a pull is lost */ faults > 0 && pull -> faults--; pull = false }
	:: atomic { /* a sync is lost */ faults > 0 && sync != 0 -> faults--; sync = 0 }
	:: atomic { /* a page is lost */ faults > 0 && page -> faults--; page = false; pageFrom = 0; pageTo = 0; through = 0 }
	:: atomic { /* the link is cut, or the server dies */ faults > 0 && connected -> faults--; hangUp() }
	:: atomic { /* the device dies: its memory is gone */
		faults > 0 ->
#ifdef PROBE_CRASH_BEFORE_ACK
		assert(!owes); /* PROBE_CRASH_BEFORE_ACK */
#endif
#ifdef ACK_BEFORE_STORE
		pending = 0;
#endif
#ifdef CURSOR_BEFORE_STORE
		pending = 0;
#endif
		faults--;
		hangUp()
	   }
	:: atomic { /* the device falls silent for good */ faults > 0 && !mute -> faults--; mute = true }
	:: atomic { /* nothing reaches a silent device */ mute && !quiet -> push[1] = false; push[2] = false; push[3] = false; hint = false; pull = false; sync = 0; page = false; pageFrom = 0; pageTo = 0; through = 0; owes = false; ack[1] = false; ack[2] = false; ack[3] = false }
	:: atomic { /* nothing goes wrong any more */ faults > 0 -> faults = 0 }
	od
}

/* Where a run ends, a device that answers has everything, and the server knows. */
active proctype End() {
end:	timeout;
	assert(allThere && head == EVENTS); /* D7 */
	assert(mute || heldTo(head) && cursor == head && delivered == head) /* D5 */
}
