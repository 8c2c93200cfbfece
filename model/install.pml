/*
 * Which cursors count: a device that is reinstalled or put back to a backup, a
 * server whose history is rewritten, and acks that arrive after either. Others
 * write events; the device sends one message of its own.
 *
 * What each of these takes out, and the invariant that must then be seen to break:
 *
 * CURSOR_OVER_INSTALLS       D9   a new install starts with a new cursor
 * N_IGNORED                  D9   a lower n is a new install
 * N_AFTER_ACK                D9   n is raised in the write that an ack reports, not after it
 * ACK_OF_OLD_INSTALL         D9   an ack counts for the install that it was sent by
 * ACK_OF_OLD_CONNECTION      D9   an ack counts only on the connection of the last hello
 * ACK_OF_OLD_EPOCH           D18  an ack of another epoch is refused
 * CURSOR_OVER_EPOCHS         D18  in a new epoch a cursor of the old one is void
 * MIDS_UNCOMPARED            D18  a client keeps of the old history only what the new one shares
 * UNDONE_NOT_RESENT          D16  own messages whose sent was undone go back into the outbox
 * EPOCH_NOT_RAISED           D18  a rewritten history gets a new epoch
 *
 * What must be reachable in the sound model:
 *
 * PROBE_REINSTALLED          a hello comes with another install
 * PROBE_ROLLED_BACK          a hello comes with a lower n
 * PROBE_LATE_ACK             an ack of an earlier connection arrives after a new hello
 * PROBE_OLD_EPOCH            an ack of the old epoch arrives in the new one
 * PROBE_UNDONE               a message whose sent was undone goes back into the outbox
 * PROBE_REWRITTEN            a seq that the device holds has another mid
 */

#define ROWS   4
#define OTHERS 3 /* events that others write, over both histories */
#define OWN    6 /* mid of the own message, plus the epoch in which it was stored */

#define higher(a, b)  ((a) > (b) -> (a) : (b))
#define own(mid)      ((mid) > OWN)
#define inLog         (own(log[1]) || own(log[2]) || own(log[3]) || own(log[4]))
#define agrees(s)     (held[s] == log[s])
#define agreeTo(s)    ((s < 1 || agrees(1)) && (s < 2 || agrees(2)) && (s < 3 || agrees(3)) && (s < 4 || agrees(4)))

/* How many things may still go wrong, of any kind. */
#ifndef FAULTS
#define FAULTS 3
#endif
byte faults = FAULTS;

/* The store: mids by seq; what it knows of the device. */
byte log[ROWS + 1];
byte rows = 0, written = 0;
byte epoch = 1;
byte known = 1, installEpoch = 1, knownN = 0; /* install text, and the highest n of it */
byte delivered = 0;
bool rewritten = false;

/* The device, durably. */
mtype = { none, waiting, settled };
byte install = 1, n = 0, cursor = 0, seenEpoch = 1;
byte held[ROWS + 1];
mtype message = waiting;

/* A backup of it. */
bool backup = false;
byte backInstall = 0, backN = 0, backCursor = 0, backEpoch = 0;
byte back[ROWS + 1];
mtype backMessage = none;

/* The connection, bound to an install epoch, and what is under way on it. */
bool connected = false, owes = false;
byte bound = 0;
byte sent = 0; /* the seq in it; 0: none */
byte ack = 0, ackN = 0, ackEpoch = 0;

/* An ack of an earlier connection that the server has not handled yet. */
byte late = 0, lateN = 0, lateEpoch = 0, lateBound = 0;
bool overtaken = false; /* a hello has come since */

inline hangUp() {
	if
	:: ack != 0 && late == 0 -> late = ack; lateN = ackN; lateEpoch = ackEpoch; lateBound = bound; overtaken = false
	:: true
	fi;
	connected = false;
	owes = false;
	bound = 0; sent = 0;
	ack = 0; ackN = 0; ackEpoch = 0
}

inline forgetLate() {
	late = 0; lateN = 0; lateEpoch = 0; lateBound = 0; overtaken = false
}

/* advance moves the cursor for an ack that was let through. */
inline advance(seq, withN) {
	assert(!connected || seenEpoch != epoch || !rewritten || agreeTo(seq)); /* D18 */
	assert(!connected || seenEpoch != epoch || agreeTo(seq)); /* D9 */
	delivered = higher(delivered, seq);
	knownN = higher(knownN, withN)
}

active proctype Others() {
end:	do
	:: atomic { /* another device appends an event */ written < OTHERS && rows < ROWS - 1 -> written++; rows++; log[rows] = written }
	od
}

active proctype Server() {
	byte s;
end:	do
	:: atomic { /* hello: connect, and learn whether the store is a new one */
		!connected ->
		connected = true;
		overtaken = (late != 0);
#ifdef PROBE_REINSTALLED
		assert(install == known); /* PROBE_REINSTALLED */
#endif
#ifdef PROBE_ROLLED_BACK
		assert(install != known || n >= knownN); /* PROBE_ROLLED_BACK */
#endif
		if
#ifdef N_IGNORED
		:: install != known ->
#else
		:: install != known || n < knownN ->
#endif
			installEpoch++;
			known = install;
			knownN = n;
#ifndef CURSOR_OVER_INSTALLS
			delivered = 0;
#endif
			owes = (cursor != 0) /* it first acks what it does hold */
		:: else -> knownN = n
		fi;
		bound = installEpoch;
		if
		:: seenEpoch == 0 -> seenEpoch = epoch
		:: else
		fi
	   }
	:: atomic { /* an ack on the connection */
		ack != 0 ->
#ifdef PROBE_OLD_EPOCH
		assert(ackEpoch == epoch); /* PROBE_OLD_EPOCH */
#endif
		if
#ifdef ACK_OF_OLD_EPOCH
		:: true ->
#else
		:: ackEpoch == epoch ->
#endif
			advance(ack, ackN)
		:: else
		fi;
		ack = 0; ackN = 0; ackEpoch = 0
	   }
	:: atomic { /* an ack of an earlier connection */
		late != 0 ->
#ifdef PROBE_LATE_ACK
		assert(!overtaken); /* PROBE_LATE_ACK */
#endif
		if
#ifdef ACK_OF_OLD_INSTALL
		:: lateEpoch == epoch -> advance(late, lateN)
#else
#ifdef ACK_OF_OLD_CONNECTION
		:: lateEpoch == epoch && lateBound == installEpoch -> advance(late, lateN)
#else
		:: lateEpoch == epoch && lateBound == installEpoch && !overtaken -> advance(late, lateN)
#endif
#endif
		:: else
		fi;
		forgetLate()
	   }
	:: atomic { /* send: append, unless the cmid is there; the answer is under way */
		connected && seenEpoch == epoch && message == waiting && sent == 0 ->
		s = 1;
		do
		:: s <= rows && !own(log[s]) -> s++
		:: else -> break
		od;
		if
		:: s > rows -> rows++; log[rows] = OWN + 1 + rewritten
		:: else
		fi;
		sent = s;
		s = 0
	   }
	od
}

active proctype Device() {
	byte s;
end:	do
	:: atomic { /* sent: the message is stored like any other */
		sent != 0 && seenEpoch == epoch ->
		held[sent] = log[sent];
		message = settled;
		sent = 0;
		do
		:: cursor < ROWS && held[cursor + 1] != 0 -> cursor++; owes = true
		:: else -> break
		od;
#ifndef N_AFTER_ACK
		n++
#endif
	   }
	:: atomic { /* pull one event; the same again until it is acknowledged */
		connected && seenEpoch == epoch && delivered < rows && !owes && ack == 0 && sent == 0 ->
		s = delivered + 1;
		held[s] = log[s];
		if
		:: own(log[s]) && message == waiting -> message = settled
		:: else
		fi;
		cursor = higher(cursor, s);
		do
		:: cursor < ROWS && held[cursor + 1] != 0 -> cursor++
		:: else -> break
		od;
#ifndef N_AFTER_ACK
		n++;
#endif
		owes = true;
		s = 0
	   }
	:: atomic { /* acknowledge */
		connected && owes && ack == 0 ->
		ack = cursor; ackN = n; ackEpoch = seenEpoch;
#ifdef N_AFTER_ACK
		n++;
#endif
		owes = false
	   }
	:: atomic { /* a new epoch: keep what the histories share */
		connected && seenEpoch != epoch ->
		do
		:: s < cursor && held[s + 1] == log[s + 1] -> s++
		:: else -> break
		od;
#ifdef PROBE_REWRITTEN
		assert(s == cursor || log[s + 1] == 0); /* PROBE_REWRITTEN */
#endif
#ifndef MIDS_UNCOMPARED
		cursor = s;
#endif
		s = cursor + 1;
		do
		:: s <= ROWS ->
			if
			:: own(held[s]) ->
#ifdef PROBE_UNDONE
				assert(message == waiting); /* PROBE_UNDONE */
#endif
#ifndef UNDONE_NOT_RESENT
				message = waiting
#endif
			:: else
			fi;
			held[s] = 0;
			s++
		:: else -> break
		od;
		n++;
		seenEpoch = epoch;
		sent = 0;
		owes = (cursor != 0 && cursor <= rows);
		s = 0
	   }
	od
}

active proctype Faults() {
	byte s;
end:	do
	:: atomic { /* the connection is cut */ faults > 0 && connected -> faults--; hangUp() }
	:: atomic { /* an ack is lost */ faults > 0 && ack != 0 -> faults--; ack = 0; ackN = 0; ackEpoch = 0 }
	:: atomic { /* the device is reinstalled, its store is lost */
		faults > 0 && install == 1 && n > 0 ->
		faults--;
		hangUp();
		d_step { held[1] = 0; held[2] = 0; held[3] = 0; held[4] = 0 };
		install = 2; n = 0; cursor = 0; seenEpoch = 0; message = none
	   }
	:: atomic { /* a backup of the device is made */
		!backup && n > 0 && faults > 0 ->
		backup = true;
		backInstall = install; backN = n; backCursor = cursor; backEpoch = seenEpoch; backMessage = message;
		d_step { back[1] = held[1]; back[2] = held[2]; back[3] = held[3]; back[4] = held[4] }
	   }
	:: atomic { /* and is put back */
		faults > 0 && backup ->
		faults--;
		hangUp();
		install = backInstall; n = backN; cursor = backCursor; seenEpoch = backEpoch; message = backMessage;
		d_step { held[1] = back[1]; held[2] = back[2]; held[3] = back[3]; held[4] = back[4] };
		d_step { back[1] = 0; back[2] = 0; back[3] = 0; back[4] = 0 };
		backup = false;
		backInstall = 0; backN = 0; backCursor = 0; backEpoch = 0; backMessage = none
	   }
	:: atomic { /* the log goes back to a backup; connections may survive it */
		faults > 0 && !rewritten && rows > 0 ->
		faults--;
		rewritten = true;
		select(s : 0 .. ROWS - 1);
		do
		:: rows > s -> log[rows] = 0; rows--
		:: else -> break
		od;
		s = 0;
		if
		:: hangUp(); forgetLate()
		:: true
		fi;
#ifndef EPOCH_NOT_RAISED
		epoch++;
#endif
#ifdef CURSOR_OVER_EPOCHS
		skip
#else
		delivered = 0
#endif
	   }
	:: atomic { /* nothing goes wrong any more */ faults > 0 -> faults = 0 }
	od
}

/* Where a run ends, the device holds the history that the server has, its
 * message is in there unless it was lost with the device, and the server knows. */
active proctype End() {
end:	timeout;
	assert(!rewritten || agreeTo(rows) && cursor == rows && delivered == rows); /* D18 */
	assert(message != waiting && (message != settled || inLog)); /* D16 */
	assert(agreeTo(rows) && cursor == rows && delivered == rows) /* D9 */
}
