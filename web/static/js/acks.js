// What this device tells the server about itself: how far it has stored
// (delivered) and how far its user has read. An ack goes out only for what a
// finished transaction holds, every few events or 200 ms, whichever is first.

const ACK_MS = 200;
const MOST = 1000; // acks a frame

export class Acks {
  #client;
  #dirty = new Map(); // conversation -> events since its last ack
  #timer;

  constructor(client) {
    this.#client = client;
  }

  /** The cursor moved, or `events` were stored, and both are on disk. */
  note(conv, events) {
    this.#dirty.set(conv, (this.#dirty.get(conv) ?? 0) + events);
    let total = 0;
    for (const count of this.#dirty.values()) total += count;
    if (total >= this.#client.limits.ack_every) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), ACK_MS);
  }

  /** Acknowledges the cursors that were noted. Nothing is lost without a link: they are noted still. */
  async flush() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#client.ready || this.#dirty.size === 0) return;
    const convs = [...this.#dirty.keys()].slice(0, MOST);
    for (const conv of convs) this.#dirty.delete(conv);
    await this.#send(convs);
    if (this.#dirty.size > 0) this.#timer ??= setTimeout(() => this.flush(), ACK_MS);
  }

  /** Acknowledges everything held: the server has lost count of this device (a new install epoch). */
  async everything() {
    const convs = [...this.#client.rows.keys()];
    for (let at = 0; at < convs.length; at += MOST) await this.#send(convs.slice(at, at + MOST));
  }

  async #send(convs) {
    const { link, n, epoch, rows } = this.#client;
    const acks = convs
      .map((conv) => rows.get(conv))
      .filter((row) => row && row.epoch === epoch && row.cursor > 0)
      .map((row) => ({ conv: row.conv, seq: row.cursor }));
    if (acks.length === 0) return;
    let reply;
    try {
      reply = await link.request({ t: 'ack', n, epoch, ...(acks.length === 1 ? acks[0] : { acks }) });
    } catch {
      for (const { conv } of acks) this.note(conv, 0);
      return;
    }
    if (link !== this.#client.link) return;
    if (reply.t === 'error') return acks.forEach(({ conv }) => this.#refused(conv, reply));
    for (const item of reply.acks ?? [reply]) {
      if (item.code) this.#refused(item.conv, item);
      else this.#client.delivered(item.conv, item.delivered);
    }
  }

  #refused(conv, error) {
    switch (error.code) {
      case 'EPOCH_CHANGED':
      case 'CURSOR_AHEAD': // the server's history is shorter than ours
        return this.#client.epochChanged(conv, error.epoch);
      case 'STALE_INSTALL':
      case 'UNAUTHENTICATED':
        return this.#client.stale(this.#client.link);
      case 'RATE_LIMITED':
      case 'OVERLOADED':
      case 'UNAVAILABLE':
        setTimeout(() => this.note(conv, 0), error.retry_after_ms ?? 1000);
    }
    return undefined; // no longer a member: nothing to acknowledge
  }
}

export class Reads {
  #client;
  #known = new Map(); // conversation -> what the server holds
  #busy = new Set();

  constructor(client) {
    this.#client = client;
  }

  /** The server says where the user's read cursor stands; another device may have moved it. */
  async known(conv, seq) {
    this.#known.set(conv, Math.max(seq, this.#known.get(conv) ?? 0));
    if (seq > (this.#client.rows.get(conv)?.read ?? 0)) await this.#client.note(conv, { read: seq });
  }

  /** A new history: the server has forgotten. */
  forget(conv) {
    this.#known.delete(conv);
  }

  /** A new link: what the server holds is not known until it says so. */
  reset() {
    this.#known.clear();
    this.#busy.clear();
  }

  /** Tells the server if the user has read further than it knows. */
  async push(conv) {
    const { link, ready, epoch, rows } = this.#client;
    const row = rows.get(conv);
    if (!ready || !row || row.epoch !== epoch || this.#busy.has(conv)) return;
    const seq = Math.min(row.read, row.cursor);
    if (seq <= (this.#known.get(conv) ?? 0)) return;
    this.#busy.add(conv);
    let reply;
    try {
      reply = await link.request({ t: 'read', conv, seq, epoch });
    } catch {
      reply = { t: 'error', retry: true };
    }
    if (link !== this.#client.link) return;
    this.#busy.delete(conv);
    if (reply.t === 'readed') {
      await this.known(conv, reply.read);
      this.push(conv);
    } else if (reply.code === 'EPOCH_CHANGED' || reply.code === 'CURSOR_AHEAD') {
      this.#client.epochChanged(conv, reply.epoch);
    } else if (reply.retry) {
      setTimeout(() => this.push(conv), reply.retry_after_ms ?? 1000);
    }
  }
}
