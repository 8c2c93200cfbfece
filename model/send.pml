/*
 * The road in: outboxes, a network that loses, doubles and overtakes, two nodes
 * that share one store, crashes of each, power cuts of the store.
 *
 * Messages 0 and 1 are ana's, to be stored in this order; message 2 is ben's.
 * The key of a message is (sender, cmid). It is also its number, except where a
 * broken variant makes up a second cmid: then m + MSGS.
 *
 * What each of these takes out, and the invariant that must then be seen to break:
 *
 * ANSWER_BEFORE_COMMIT       D1   the answer waits for the commit
 * TWO_TRANSACTIONS           D1   dedup row and event are one transaction
 * NO_DEDUP                   D2   the store looks the key up
 * LOOKUP_OUTSIDE             D2   the look-up is part of the transaction that inserts
 * NEW_CMID_PER_TRY           D2   a resend carries the cmid of the first attempt
 * DEDUP_ROW_ONLY             D2   when the dedup row has been cleaned away, the event decides
 * NO_FLUSH                   D6   a commit is flushed before its answer
 * DUP_WITHOUT_WRITE          D6   a duplicate is answered after a commit of its own
 * SYNC_BEFORE_FLUSH          D6   the log that a client settles from is flushed
 * KEY_WITHOUT_SENDER         D12  the key names the sender
 * NO_PREV                    D14  a message waits for the one before it
 * SEND_BEFORE_OUTBOX         D16  a message is in the outbox before it is sent
 * DROP_ON_SEND               D16  a message stays in the outbox until it is answered
 * DROP_ON_RESTART            D16  a restart settles nothing by guessing
 *
 * What must be reachable in the sound model:
 *
 * PROBE_CRASH_BEFORE_COMMIT  a node dies while its transaction is open
 * PROBE_CRASH_AFTER_COMMIT   a node dies between commit and answer
 * PROBE_DUP_AFTER_CRASH      the resend after a crash finds the row
 * PROBE_UNSAFE_ROW           a look-up finds a row that a power cut would take
 * PROBE_ROW_TAKEN            a power cut takes a row that was visible
 * PROBE_BOTH_HANDLE          both nodes handle the same message at once
 * PROBE_OVERTAKEN            a message arrives before the one it follows
 * PROBE_SETTLED_FROM_LOG     a client settles from the log
 * PROBE_ROW_CLEANED          a resend finds the event whose dedup row is gone
 */

#define MSGS    3
#define ROWS    4 /* one more than should ever be written */
#define KEYS    6
#define NOBODY  9
#define REFUSED 9 /* OUT_OF_ORDER, in place of a seq */

#define message(k) ((k) % MSGS)

#ifdef KEY_WITHOUT_SENDER
#define same(a, b) ((a) == (b) || message(a) + message(b) == 2 && message(a) != 1) /* 0 and 2 have one cmid */
#else
#define same(a, b) ((a) == (b))
#endif

/* The store. log[s] is key + 1. Rows up to rows are visible; those up to safe
 * survive a power cut. open is the node whose transaction is open. */
byte log[ROWS + 1];
byte rows = 0, safe = 0;
bool dedup[ROWS + 1]; /* whether the dedup row of log[s] is there */
byte open = NOBODY;
#ifdef TWO_TRANSACTIONS
byte promised[KEYS]; /* the seq in a dedup row whose event is still to come */
#endif

/* The clients. A waiting message is in the durable outbox. */
mtype = { waiting, settled, unwritten, onlySent, forgotten };
#ifdef SEND_BEFORE_OUTBOX
mtype state[MSGS] = unwritten;
#else
mtype state[MSGS] = waiting; /* written before anything is sent */
#endif
bool told[MSGS]; /* its sender has been told that it is stored */
#ifdef NEW_CMID_PER_TRY
bool tried[MSGS];
#endif

/* The network. req[m] is key + 1, ans[m] the seq in sent, or REFUSED; 0: none. */
byte req[MSGS], ans[MSGS];
byte busy[MSGS]; /* how many nodes are at work on it */

/* How many things may still go wrong, of any kind. */
#ifndef FAULTS
#define FAULTS 3
#endif
byte faults = FAULTS;

/* is(s, k): row s has this key. seqOf(k): where the row of a key stands; 0: nowhere.
 * of(s, m): row s is this message. copies(m): how often it is in the log. */
#define is(s, k)   (s <= rows && same(log[s] - 1, k))
#define seqOf(k)   (is(1, k) -> 1 : (is(2, k) -> 2 : (is(3, k) -> 3 : (is(4, k) -> 4 : 0))))
#define of(s, m)   (s <= rows && message(log[s] - 1) == m)
#define copies(m)  (of(1, m) + of(2, m) + of(3, m) + of(4, m))

/* lookUp sets seq to what the store knows of a key: its dedup row, else the event. */
inline lookUp() {
	seq = seqOf(key);
#ifdef DEDUP_ROW_ONLY
	if
	:: seq != 0 && !dedup[seq] -> seq = 0
	:: else
	fi;
#endif
#ifdef TWO_TRANSACTIONS
	if
	:: seq == 0 -> seq = promised[key]
	:: else
	fi;
#endif
#ifdef NO_DEDUP
	seq = 0;
#endif
}

/* insert makes the row of a transaction visible. */
inline insert() {
	rows++;
	log[rows] = key + 1;
	dedup[rows] = true;
	assert(copies(message(key)) == 1); /* D2 */
	assert(message(key) != 1 || copies(0) > 0) /* D14 */
}

proctype Node(byte me) {
	byte key = 0, seq = 0;
	bool fresh = false;

end:	do
	:: atomic { /* take a request; the network may keep a copy */
		if
		:: req[0] != 0 -> key = req[0] - 1
		:: req[1] != 0 && req[0] == 0 -> key = req[1] - 1
		:: req[1] != 0 && req[0] != 0 && faults > 0 -> faults--; key = req[1] - 1
		:: req[2] != 0 -> key = req[2] - 1
		fi;
		if
		:: req[message(key)] = 0
		:: faults > 0 -> faults--
		fi;
		busy[message(key)]++;
#ifdef PROBE_BOTH_HANDLE
		assert(busy[message(key)] == 1); /* PROBE_BOTH_HANDLE */
#endif
#ifdef LOOKUP_OUTSIDE
		d_step { lookUp() };
#endif
	   };

	   atomic { /* begin, look up, write */
		if
		:: faults > 0 -> faults--; goto again
		:: open == NOBODY
		fi;
#ifndef LOOKUP_OUTSIDE
		d_step { lookUp() };
#endif
#ifdef PROBE_ROW_CLEANED
		assert(seq == 0 || dedup[seq]); /* PROBE_ROW_CLEANED */
#endif
#ifdef PROBE_UNSAFE_ROW
		assert(seq <= safe); /* PROBE_UNSAFE_ROW */
#endif
#ifdef PROBE_DUP_AFTER_CRASH
		assert(seq == 0 || faults == FAULTS); /* PROBE_DUP_AFTER_CRASH */
#endif
#ifdef DUP_WITHOUT_WRITE
		if
		:: seq != 0 -> goto answer
		:: else
		fi;
#endif
#ifndef NO_PREV
		if
		:: seq == 0 && message(key) == 1 && copies(0) == 0 ->
#ifdef PROBE_OVERTAKEN
			assert(false); /* PROBE_OVERTAKEN */
#endif
			ans[1] = REFUSED;
			goto again
		:: else
		fi;
#endif
		fresh = (seq == 0);
		if
		:: fresh -> seq = rows + 1
		:: else
		fi;
		open = me;
#ifdef TWO_TRANSACTIONS
		promised[key] = seq
#endif
	   };

#ifdef ANSWER_BEFORE_COMMIT
	   ans[message(key)] = seq;
#endif

	   atomic { /* commit */
		if
		:: open == me && faults > 0 -> /* its outcome is unknown */
#ifdef PROBE_CRASH_BEFORE_COMMIT
			assert(false); /* PROBE_CRASH_BEFORE_COMMIT */
#endif
			faults--;
			open = NOBODY;
			if
			:: fresh -> d_step { insert() } /* found after the restart, but not flushed */
			:: true
			fi;
			goto again
		:: open == me ->
			open = NOBODY;
			d_step {
				if
				:: fresh -> insert()
				:: else
				fi
			};
#ifndef NO_FLUSH
			safe = rows
#endif
		:: open != me -> goto again /* a power cut has rolled it back */
		fi
	   };

answer:	   atomic { /* answer, or crash before it */
		if
		:: faults > 0 ->
#ifdef PROBE_CRASH_AFTER_COMMIT
			assert(false); /* PROBE_CRASH_AFTER_COMMIT */
#endif
			faults--
		:: ans[message(key)] = seq
		fi
	   };
again:	   atomic { /* ready for the next request */ busy[message(key)]--; key = 0; seq = 0; fresh = false }
	od
}

/* A message on its sender's device: written, sent, sent again, settled. */
proctype Message(byte m) {
end:	do
#ifdef SEND_BEFORE_OUTBOX
	:: atomic { /* send what is not written yet */ state[m] == unwritten -> state[m] = onlySent; req[m] = m + 1 }
	:: atomic { /* write it, when it is sent already */ state[m] == onlySent -> state[m] = waiting }
#endif
	:: atomic { /* send, or send again once nothing of it is under way */
		state[m] == waiting && req[m] == 0 && ans[m] == 0 && busy[m] == 0 ->
		req[m] = m + 1;
#ifdef NEW_CMID_PER_TRY
		if
		:: tried[m] -> req[m] = m + MSGS + 1
		:: else
		fi;
		tried[m] = true;
#endif
#ifdef DROP_ON_SEND
		state[m] = settled
#endif
	   }
	:: atomic { /* sent; the network may keep a copy */
		ans[m] != 0 && ans[m] != REFUSED ->
		assert(ans[m] <= rows && log[ans[m]] != 0); /* D1 */
		assert(message(log[ans[m]] - 1) == m); /* D12 */
		told[m] = true;
		state[m] = settled;
		if
		:: ans[m] = 0
		:: faults > 0 -> faults--
		fi
	   }
	:: atomic { /* a refused message may go once the one before it is settled */ ans[m] == REFUSED && state[0] == settled -> ans[m] = 0 }
	:: atomic { /* found in the synced log; the hello before it has written, and so flushed */
		state[m] == waiting && seqOf(m) != 0 && open == NOBODY ->
#ifdef PROBE_SETTLED_FROM_LOG
		assert(false); /* PROBE_SETTLED_FROM_LOG */
#endif
#ifndef SYNC_BEFORE_FLUSH
		safe = rows;
#endif
		assert(of(seqOf(m), m)); /* D12 */
		told[m] = true;
		state[m] = settled
	   }
	od
}

/* Losses of a message's frames. */
proctype Loss(byte m) {
end:	do
	:: atomic { /* a request is lost */ faults > 0 && req[m] != 0 -> faults--; req[m] = 0 }
	:: atomic { /* an answer is lost */ faults > 0 && ans[m] != 0 -> faults--; ans[m] = 0 }
	od
}

proctype Faults() {
	byte m;
end:	do
	:: atomic { /* a device restarts: what it had not read is gone */
		faults > 0 ->
		faults--;
		select(m : 0 .. MSGS - 1);
		ans[m] = 0;
		if
		:: state[m] == onlySent -> state[m] = forgotten
#ifdef DROP_ON_RESTART
		:: state[m] == waiting && req[m] != 0 -> state[m] = settled
#endif
		:: else
		fi;
		m = 0
	   }
	:: atomic { /* the store loses power, and its unflushed rows */
		faults > 0 ->
		faults--;
		open = NOBODY;
#ifdef PROBE_ROW_TAKEN
		assert(safe == rows); /* PROBE_ROW_TAKEN */
#endif
		d_step {
			rows = safe;
			for (m : 1 .. ROWS) {
				if
				:: m > safe -> log[m] = 0; dedup[m] = false
				:: else
				fi
			}
			m = 0
		};
		do
		:: m < MSGS -> assert(!told[m] || copies(m) == 1); /* D6 */ m++
		:: else -> break
		od;
		m = 0
	   }
	:: atomic { /* old dedup rows are cleaned away */
		faults > 0 && rows > 0 && open == NOBODY ->
		faults--;
		dedup[1] = false
	   }
	:: atomic { /* nothing goes wrong any more */ faults > 0 -> faults = 0 }
	od
}

/* Where a run ends, each message is in the log once, and the outboxes are empty. */
proctype End() {
	byte m;
end:	timeout;
	do
	:: m < MSGS ->
		assert(state[m] == settled && copies(m) == 1); /* D16 */
		m++
	:: else -> break
	od
}

init {
	atomic { /* begin */
		run Node(0); run Node(1);
		run Message(0); run Message(1); run Message(2);
		run Loss(0); run Loss(1); run Loss(2);
		run Faults(); run End()
	}
}
