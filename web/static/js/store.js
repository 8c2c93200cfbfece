// The durable memory of one device: an IndexedDB database per user.
//
// Everything that the protocol rests on is changed in one transaction with
// strict durability, and is read inside that transaction, so that two tabs on
// one database cannot undo each other's work. A promise returned here settles
// when the transaction is on disk, never before.

import { randomText } from './ids.js';
import { get, keys, open, record } from './idb.js';
import { applyBatch, stepEpoch } from './log.js';

const SCHEMA = {
  version: 1,
  upgrade(db) {
    db.createObjectStore('meta'); // 'self': {device, install, n, installEpoch}
    db.createObjectStore('convs', { keyPath: 'conv' }); // see log.js, emptyRow
    const events = db.createObjectStore('events', { keyPath: ['conv', 'seq'] });
    events.createIndex('recalls', ['conv', 'target']); // holds recall events only
    const outbox = db.createObjectStore('outbox', { keyPath: 'oid', autoIncrement: true });
    outbox.createIndex('cmid', 'cmid', { unique: true });
  },
};

const LOG = ['meta', 'convs', 'events', 'outbox'];

export class Store {
  #db;
  #user;
  #channel;

  /** Opens (or makes) the store of a user on this browser. */
  static async open(user) {
    const store = new Store();
    store.#user = user;
    store.#db = await open(name(user), SCHEMA);
    await store.#write(['meta'], async (tx) => {
      const meta = tx.objectStore('meta');
      if (await get(meta, 'self')) return;
      // The device keeps its id when only the store is lost; the server then sees a new install.
      const self = { device: keptDevice(user), install: randomText(16), n: 0, installEpoch: 0 };
      await record(meta, self, 'self');
    });
    if ('BroadcastChannel' in globalThis) store.#channel = new BroadcastChannel(name(user));
    return store;
  }

  /** Deletes the store of a user; false when another tab keeps it open. */
  static erase(user) {
    return new Promise((resolve, reject) => {
      const request = indexedDB.deleteDatabase(name(user));
      request.onsuccess = () => resolve(true);
      request.onblocked = () => resolve(false);
      request.onerror = () => reject(request.error);
    });
  }

  close() {
    this.#channel?.close();
    this.#db.close();
  }

  /** Calls back when another tab has put something into the same outbox. */
  onOutbox(callback) {
    if (this.#channel) this.#channel.onmessage = callback;
  }

  /** Calls back when the database is taken away (erased, or the browser closed it). */
  onLost(callback) {
    this.#db.onversionchange = () => {
      this.close();
      callback();
    };
    this.#db.onclose = callback;
  }

  /** Who this store is: {device, install, n, installEpoch}. */
  self() {
    return this.#read(['meta'], (tx) => get(tx.objectStore('meta'), 'self'));
  }

  /** Remembers the install epoch that the server gave. */
  setInstallEpoch(installEpoch) {
    return this.#write(['meta'], async (tx) => {
      const meta = tx.objectStore('meta');
      const self = await get(meta, 'self');
      await record(meta, { ...self, installEpoch }, 'self');
    });
  }

  /** Every conversation row. */
  rows() {
    return this.#read(['convs'], (tx) => get(tx.objectStore('convs'), null, 'getAll'));
  }

  /** The newest `limit` events below `before`, ascending. */
  tail(conv, limit, before = Infinity) {
    return this.#read(['events'], (tx) => new Promise((resolve, reject) => {
      const events = [];
      const range = IDBKeyRange.bound([conv, 0], [conv, before], false, true);
      const walk = tx.objectStore('events').openCursor(range, 'prev');
      walk.onerror = () => reject(walk.error);
      walk.onsuccess = () => {
        const cursor = walk.result;
        if (!cursor || events.length === limit) return resolve(events.reverse());
        events.push(cursor.value);
        cursor.continue();
      };
    }));
  }

  /** The mid held at a seq, or undefined. */
  async midAt(conv, seq) {
    const event = await this.#read(['events'], (tx) => get(tx.objectStore('events'), [conv, seq]));
    return event?.mid;
  }

  /** The seqs at which events are held, ascending, up to and with `through`. */
  seqs(conv, through) {
    const range = IDBKeyRange.bound([conv, 0], [conv, through]);
    return this.#read(['events'], async (tx) => (await keys(tx.objectStore('events'), range)).map((key) => key[1]));
  }

  /** Stores batches of events, settles the outbox by them and moves the cursors; see log.js. */
  apply(batches) {
    return this.#write(LOG, (tx) => applyBatch(tx, this.#user, batches));
  }

  /** Takes over a new history of one conversation, of which everything up to `keep` is held; see log.js. */
  stepEpoch(conv, keep, epoch) {
    return this.#write(LOG, (tx) => stepEpoch(tx, this.#user, conv, keep, epoch));
  }

  /** Every outbox item in the order in which they were written. */
  outbox() {
    return this.#read(['outbox'], (tx) => get(tx.objectStore('outbox'), null, 'getAll'));
  }

  /** Writes an outbox item and gives it back with its place (`oid`). */
  async enqueue(item) {
    const oid = await this.#write(['outbox'], (tx) => record(tx.objectStore('outbox'), item));
    this.#channel?.postMessage('outbox');
    return { ...item, oid };
  }

  /** Notes, before the first attempt, that these items may reach the server; gives those that are still there. */
  markTried(oids) {
    return this.#write(['outbox'], async (tx) => {
      const kept = new Set();
      for (const oid of oids) if (await patch(tx, oid, { tried: true })) kept.add(oid);
      return kept;
    });
  }

  /** Notes a final refusal. */
  markFailed(oid, error) {
    return this.#write(['outbox'], (tx) => patch(tx, oid, { error }));
  }

  /** Removes an item that was refused or never tried; false when it may be on its way. */
  withdraw(oid) {
    return this.#write(['outbox'], async (tx) => {
      const outbox = tx.objectStore('outbox');
      const item = await get(outbox, oid);
      if (!item || (item.tried && !item.error)) return false;
      await get(outbox, oid, 'delete');
      return true;
    });
  }

  /** Raises the own read cursor and what is known of others' cursors. Losing this costs nothing, so it is not flushed. */
  note(conv, { read = 0, peers = {} }) {
    return this.#write(['convs'], async (tx) => {
      const convs = tx.objectStore('convs');
      const row = await get(convs, conv);
      if (!row) return undefined;
      row.read = Math.max(row.read, read);
      for (const [user, far] of Object.entries(peers)) {
        const known = row.peers[user] ?? { delivered: 0, read: 0 };
        row.peers[user] = {
          delivered: Math.max(known.delivered, far.delivered ?? 0),
          read: Math.max(known.read, far.read ?? 0),
        };
      }
      await record(convs, row);
      return row;
    }, 'relaxed');
  }

  #read(stores, work) {
    return work(this.#db.transaction(stores, 'readonly'));
  }

  #write(stores, work, durability = 'strict') {
    return new Promise((resolve, reject) => {
      const tx = this.#db.transaction(stores, 'readwrite', { durability });
      let result;
      let failure;
      tx.oncomplete = () => resolve(result);
      tx.onabort = () => reject(failure ?? tx.error ?? new Error('the browser gave the transaction up'));
      work(tx).then(
        (value) => { result = value; },
        (error) => {
          failure = error;
          try { tx.abort(); } catch { reject(error); } // it had ended already
        },
      );
    });
  }
}

async function patch(tx, oid, change) {
  const outbox = tx.objectStore('outbox');
  const item = await get(outbox, oid);
  if (!item) return false;
  await record(outbox, { ...item, ...change });
  return true;
}

function name(user) {
  return `impart-demo:${user}`;
}

function keptDevice(user) {
  const key = `impart-demo:device:${user}`;
  const made = `d-web-${randomText(4)}`;
  try {
    const kept = localStorage.getItem(key);
    if (kept) return kept;
    localStorage.setItem(key, made);
  } catch { /* no local storage: the device is as new as its store */ }
  return made;
}
