// The sending half of a client. A message is written to the store before its
// first attempt, keeps its cmid through every retry, and leaves when the server
// said `sent`, when the synced log shows it, or when the user removes one that
// was refused for good. Order is kept by `prev`: it names the message of the
// same conversation that must be stored before.

import { Backoff } from './backoff.js';
import { randomText } from './ids.js';

const WINDOW = 32; // sends without a reply
const REPLY_MS = 5000;

export class Outbox {
  #client;
  #items = []; // in the order in which they were written
  #flying = new Set(); // cmids that wait for a reply on the present link
  #held = new Map(); // conversation -> {until, backoff}
  #pumping = false;
  #again = false;

  constructor(client) {
    this.#client = client;
  }

  /** The items as the user sees them, refused ones included. */
  get items() {
    return this.#items;
  }

  /** Reads the store again: at start, and after another tab or a new history changed it. */
  async load() {
    const items = await this.#client.store.outbox();
    this.#items = items;
    this.#client.changed();
    this.pump();
  }

  /** Queues a text. */
  async send(conv, body) {
    const size = new TextEncoder().encode(body).length;
    const most = this.#client.limits.body;
    const item = { conv, cmid: randomText(16), kind: 'msg', body, at: Date.now() };
    // Far above the limit a frame closes the connection, so it is refused here.
    if (size > most) item.error = { code: 'TOO_LARGE', message: `body is ${size} bytes, at most ${most} are allowed` };
    await this.#add(item);
  }

  /** Queues the recall of a stored message. */
  async recall({ conv, seq, mid }) {
    if (this.#items.some((item) => item.kind === 'recall' && item.mid === mid && !item.error)) return;
    await this.#add({ conv, cmid: randomText(16), kind: 'recall', seq, mid, at: Date.now() });
  }

  /** Removes an item that was refused, or that was never tried; true if it is gone. */
  async withdraw(item) {
    const gone = await this.#client.store.withdraw(item.oid);
    await this.load();
    return gone;
  }

  /** The log shows these messages: they are done. */
  settled(cmids) {
    const done = new Set(cmids);
    this.#items = this.#items.filter((item) => !done.has(item.cmid));
    for (const cmid of cmids) this.#flying.delete(cmid);
  }

  /** The link is gone, and with it every answer that was on its way. */
  reset() {
    this.#flying.clear();
    this.#held.clear();
  }

  /** Sends what may be sent now. */
  async pump() {
    this.#again = true;
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      while (this.#again) {
        this.#again = false;
        await this.#round();
      }
    } catch (error) {
      this.#client.storageFailed(error);
    } finally {
      this.#pumping = false;
    }
  }

  async #add(item) {
    const stored = await this.#client.store.enqueue(item);
    if (!this.#items.some((each) => each.oid === stored.oid)) this.#items.push(stored);
    this.#items.sort((a, b) => a.oid - b.oid);
    this.#client.changed();
    this.pump();
  }

  async #round() {
    const link = this.#client.link;
    const sends = this.#due();
    const untried = sends.filter(({ item }) => !item.tried).map(({ item }) => item.oid);
    if (untried.length > 0) {
      const kept = await this.#client.store.markTried(untried);
      for (const item of this.#items) if (kept.has(item.oid)) item.tried = true;
      // The user or the log may have taken an item out meanwhile: look again.
      this.#again = true;
      return;
    }
    if (link !== this.#client.link) return;
    for (const { item, prev } of sends) this.#attempt(link, item, prev);
  }

  /** What to send now, oldest first, each with the message it must follow. */
  #due() {
    const due = [];
    const last = new Map(); // conversation -> cmid of the unsettled message before
    for (const item of this.#items) {
      if (item.error) continue;
      const prev = last.get(item.conv);
      if (item.kind === 'msg') last.set(item.conv, item.cmid);
      if (this.#flying.has(item.cmid) || !this.#open(item.conv)) continue;
      if (this.#flying.size + due.length >= WINDOW) break;
      due.push({ item, prev });
    }
    return due;
  }

  /** A conversation is open for sending once it was caught up on this link and no answer asked to wait. */
  #open(conv) {
    return this.#client.caughtUp(conv) && !(this.#held.get(conv)?.until > Date.now());
  }

  async #attempt(link, item, prev) {
    this.#flying.add(item.cmid);
    let reply;
    try {
      reply = await link.request(this.#frame(item, prev), REPLY_MS);
    } catch {
      // No answer is no verdict: the same cmid goes again, on this link or the next.
      if (link !== this.#client.link) return;
      this.#flying.delete(item.cmid);
      this.#hold(item.conv, 0);
      return;
    }
    if (link !== this.#client.link) return;
    try {
      if (reply.t === 'sent') await this.#sent(item, reply);
      else await this.#refused(item, reply);
    } catch (error) {
      this.#client.storageFailed(error);
    }
    this.#flying.delete(item.cmid);
    this.pump();
  }

  #frame(item, prev) {
    const { conv, cmid } = item;
    const epoch = this.#client.epoch;
    if (item.kind === 'recall') return { t: 'recall', conv, seq: item.seq, cmid, mid: item.mid, epoch };
    const frame = { t: 'send', conv, cmid, body: item.body, epoch };
    if (prev) frame.prev = prev;
    if (item.type) frame.type = item.type;
    if (item.ext) frame.ext = item.ext;
    return frame;
  }

  /** Stored by the server: this connection gets no event for it, so the reply becomes the event. */
  async #sent(item, { conv, seq, mid, epoch, at }) {
    this.#held.delete(conv);
    const event = { conv, seq, mid, kind: item.kind, sender: this.#client.user, cmid: item.cmid, at };
    if (item.kind === 'recall') Object.assign(event, { target: item.seq, target_mid: item.mid });
    else Object.assign(event, { body: item.body, type: item.type ?? 'text' }, item.ext && { ext: item.ext });
    // In another epoch the item stays until the reconciled log shows it.
    await this.#client.received(epoch, [event]);
  }

  async #refused(item, error) {
    if (error.code === 'EPOCH_CHANGED') return this.#client.epochChanged(item.conv, error.epoch);
    if (error.code === 'STALE_INSTALL' || error.code === 'UNAUTHENTICATED') {
      this.#hold(item.conv, 1000);
      return this.#client.stale(this.#client.link);
    }
    if (error.retry) return this.#hold(item.conv, error.retry_after_ms);
    const refusal = { code: error.code, message: error.message };
    await this.#client.store.markFailed(item.oid, refusal);
    // What follows is linked to the message before this one from now on.
    this.#items = this.#items.map((each) => (each.oid === item.oid ? { ...each, error: refusal } : each));
    this.#client.changed();
  }

  /** Waits before the conversation is tried again. */
  #hold(conv, retryAfter) {
    const held = this.#held.get(conv) ?? { until: 0, backoff: new Backoff() };
    const wait = retryAfter ?? held.backoff.next();
    held.until = Math.max(held.until, Date.now() + wait);
    this.#held.set(conv, held);
    setTimeout(() => this.pump(), wait + 1);
  }
}
