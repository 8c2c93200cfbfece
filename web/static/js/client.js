// One device of one user: its memory, and what passes between the store, the
// connection, the outbox, the catch-up and the view. It shows nothing and
// decides nothing about how things look.

import { Acks, Reads } from './acks.js';
import { CatchUp } from './catchup.js';
import { Outbox } from './outbox.js';
import { Peers } from './peers.js';
import { Session } from './session.js';
import { Store } from './store.js';

const WINDOW = 200; // events of the watched conversation in memory at first
const TYPING_MS = 3000; // between two typing frames
const SHARED = 64; // batches that may share a transaction

export class Client {
  store;
  device = '';
  /** starting · connecting · catching-up · online · away · offline · superseded · revoked · refused · broken */
  state = 'starting';
  /** Why the watched conversation cannot be read, as an error code; undefined while it can. */
  unreadable;
  /** The link in use, or null; `ready` from its subscription to its end. */
  link = null;
  ready = false;
  epoch = 0;
  n = 0; // of the newest transaction that preceded an ack
  limits = { body: 65536, ack_every: 4 };
  rows = new Map(); // conversation -> its stored row
  events = new Map(); // seq -> event of the watched conversation, from #from on
  hasEarlier = false;

  outbox = new Outbox(this);
  catchUp = new CatchUp(this);
  acks = new Acks(this);
  reads = new Reads(this);
  peers = new Peers(this);
  #session = new Session(this);

  #from = 1;
  #delivered = new Map(); // conversation -> what the server holds for this device
  #batches = [];
  #storing = false;
  #typed = 0;

  /** prepare runs before each connection; changed after anything that a view may show. */
  constructor({ user, token, url, conv, prepare, changed }) {
    Object.assign(this, { user, token, url, conv, prepare, changed });
  }

  /** Opens the store, shows what it holds and connects. Again after another tab took over, or after a failure. */
  async start() {
    try {
      this.store?.close();
      this.store = await Store.open(this.user);
      this.store.onOutbox(() => this.outbox.load());
      this.store.onLost(() => this.storageFailed(new Error('the database was taken away')));
      await this.#reload();
    } catch (error) {
      return this.storageFailed(error);
    }
    return this.goOnline();
  }

  /** Forgets everything this browser holds of the user; false when another tab keeps it. */
  async erase() {
    await this.goOffline();
    this.store.close();
    const gone = await Store.erase(this.user);
    await this.start();
    return gone;
  }

  goOnline() {
    this.#session.start();
  }

  /** Leaves until goOnline; what is written meanwhile waits in the outbox. */
  goOffline() {
    return this.#session.stop('offline');
  }

  /** The network or the tab came back: do not wait out the pause. */
  nudge() {
    this.#session.nudge();
  }

  send(body) {
    return this.outbox.send(this.conv, body);
  }

  typing() {
    if (!this.ready || Date.now() - this.#typed < TYPING_MS) return;
    this.#typed = Date.now();
    this.link.tell({ t: 'typing', conv: this.conv });
  }

  /** The user has seen everything up to seq. */
  async seen(seq) {
    const row = this.rows.get(this.conv);
    if (!row || seq <= row.read || seq > row.cursor) return;
    await this.note(this.conv, { read: seq });
    this.reads.push(this.conv);
  }

  /** Reads an older part of the local log into the window. */
  async showEarlier() {
    const older = await this.store.tail(this.conv, WINDOW, this.#from);
    for (const event of older) this.events.set(event.seq, event);
    this.hasEarlier = older.length === WINDOW;
    if (older.length > 0) this.#from = older[0].seq;
    this.changed();
  }

  /** True when messages may be sent to the conversation. */
  caughtUp(conv) {
    return this.ready && this.catchUp.level(conv);
  }

  /** What the server holds as delivered to this device. */
  deliveredAt(conv) {
    return this.#delivered.get(conv) ?? 0;
  }

  delivered(conv, seq) {
    this.#delivered.set(conv, seq);
  }

  /** Stores events that were pushed or answered; those of an older history are dropped. */
  async received(epoch, events) {
    this.adopt(epoch);
    if (epoch === this.epoch) await this.apply({ conv: events[0].conv, epoch, events });
  }

  /** Stores one batch; when it returns, the transaction is on disk and the ack is on its way. */
  apply(batch) {
    return new Promise((resolve, reject) => {
      this.#batches.push({ batch, resolve, reject });
      this.#store();
    });
  }

  // Batches that arrive while a transaction is under way share the next one.
  async #store() {
    if (this.#storing) return;
    this.#storing = true;
    while (this.#batches.length > 0) {
      const work = this.#batches.splice(0, SHARED);
      try {
        this.#stored(await this.store.apply(work.map(({ batch }) => batch)));
        for (const { resolve } of work) resolve();
      } catch (error) {
        for (const { reject } of work) reject(error);
      }
    }
    this.#storing = false;
  }

  #stored({ n, rows, changed, settled, stored, stale, conflicts }) {
    this.n = n;
    for (const [conv, row] of rows) {
      const before = this.rows.get(conv)?.cursor ?? 0;
      this.rows.set(conv, row);
      const count = stored.get(conv) ?? 0;
      if (count > 0 || row.cursor > before) this.acks.note(conv, count);
      if (row.top > row.cursor) this.catchUp.gap(conv);
    }
    for (const event of changed) this.#show(event);
    if (settled.length > 0) this.outbox.settled(settled);
    for (const conv of stale) this.catchUp.start(conv);
    for (const conv of conflicts) this.catchUp.start(conv, { force: true });
    this.changed();
  }

  #show(event) {
    if (event.conv !== this.conv || event.seq < this.#from) return;
    this.events.set(event.seq, event);
    if (event.kind === 'msg') this.peers.wrote(event.sender);
  }

  /** Learns the store's epoch; true if it is a new one, in which case every conversation is reconciled. */
  adopt(epoch) {
    if (!epoch || epoch <= this.epoch) return false;
    this.epoch = epoch;
    for (const row of this.rows.values()) this.catchUp.start(row.conv, { force: row.epoch !== epoch });
    return true;
  }

  /** A request was refused because the server's history is not the one this device holds. */
  epochChanged(conv, epoch) {
    if (!this.adopt(epoch)) this.catchUp.start(conv, { force: true });
  }

  /** Keeps what both histories share, as the store does. */
  async stepEpoch(conv, keep) {
    const { n, row } = await this.store.stepEpoch(conv, keep, this.epoch);
    this.n = n;
    this.rows.set(conv, row);
    this.#delivered.delete(conv);
    this.reads.forget(conv);
    await this.#reload();
    this.acks.note(conv, 0);
  }

  /** The session of this device was replaced or refused: a bye is on its way. */
  stale(link) {
    setTimeout(() => link.close(), 3000);
  }

  /** A conversation, or with none given all of them, may have become level. */
  levelled(conv) {
    if (!this.ready) return;
    if (!this.catchUp.busy) this.show('online');
    this.peers.learn();
    this.outbox.pump();
    if (conv) this.reads.push(conv);
  }

  /** Raises cursors that may be lost without harm. */
  async note(conv, cursors) {
    try {
      const row = await this.store.note(conv, cursors);
      if (row) this.rows.set(conv, row);
      this.changed();
    } catch (error) {
      this.storageFailed(error);
    }
  }

  /** The store did not keep something: nothing may be acknowledged any more. */
  storageFailed(error) {
    if (this.state === 'broken') return;
    console.error('impart: the local store failed', error);
    this.#session.stop('broken');
  }

  /** The link is over. */
  lost() {
    this.link = null;
    this.ready = false;
    for (const part of [this.outbox, this.catchUp, this.reads, this.peers]) part.reset();
    this.#delivered.clear();
    this.changed();
  }

  show(state) {
    this.state = state;
    this.changed();
  }

  async #reload() {
    this.device = (await this.store.self()).device;
    this.rows = new Map((await this.store.rows()).map((row) => [row.conv, row]));
    const newest = await this.store.tail(this.conv, WINDOW);
    this.events = new Map(newest.map((event) => [event.seq, event]));
    this.hasEarlier = newest.length === WINDOW;
    this.#from = this.hasEarlier ? newest[0].seq : 1;
    await this.outbox.load();
  }
}
