// What is known of the other members of the watched conversation: how far they
// have stored and read (receipts, which are pushed and not in the log), and
// whether they are typing.

const TYPING_MS = 5000; // how long a typing frame is believed

export class Peers {
  #client;
  #typists = new Map(); // user -> timer
  #asked = null; // the link on which learn has asked

  constructor(client) {
    this.#client = client;
  }

  /** Who is typing now. */
  get typists() {
    return [...this.#typists.keys()];
  }

  /** The furthest that another member has come: {delivered, read}. */
  get furthest() {
    const peers = Object.values(this.#client.rows.get(this.#client.conv)?.peers ?? {});
    return {
      delivered: Math.max(0, ...peers.map((peer) => peer.delivered)),
      read: Math.max(0, ...peers.map((peer) => peer.read)),
    };
  }

  receipt({ conv, user, delivered, read }) {
    if (user === this.#client.user) return this.#client.reads.known(conv, read); // another own device
    return this.#client.note(conv, { peers: { [user]: { delivered, read } } });
  }

  typing({ conv, user }) {
    if (conv !== this.#client.conv || user === this.#client.user) return;
    clearTimeout(this.#typists.get(user));
    this.#typists.set(user, setTimeout(() => this.wrote(user), TYPING_MS));
    this.#client.changed();
  }

  /** The user has sent what they were typing, or stopped. */
  wrote(user) {
    if (!this.#typists.has(user)) return;
    clearTimeout(this.#typists.get(user));
    this.#typists.delete(user);
    this.#client.changed();
  }

  reset() {
    for (const user of this.typists) this.wrote(user);
    this.#asked = null;
  }

  /** Receipts may have been lost: learn asks again. */
  forget() {
    this.#asked = null;
  }

  /**
   * Asks where the others are: receipts that were due while this device was away
   * are gone. The newest own message mostly answers for all; if it does not, the
   * last one that was stored, and the last that was read, are searched by halves.
   */
  async learn() {
    const { link, events, user } = this.#client;
    if (this.#asked === link || !this.#client.caughtUp(this.#client.conv)) return;
    this.#asked = link;
    const own = [...events.values()].filter((event) => event.sender === user && event.kind === 'msg').map((event) => event.seq);
    own.sort((a, b) => a - b);
    try {
      await this.#search(link, own, 'delivered');
      await this.#search(link, own, 'read');
    } catch (error) {
      if (!error.why) this.#client.storageFailed(error);
    }
  }

  async #search(link, own, what) {
    let low = own.filter((seq) => seq <= this.furthest[what]).length; // known to have got there
    let high = own.length;
    for (let probe = high; low < high; probe = Math.ceil((low + high) / 2)) {
      const reply = await link.request({ t: 'who', conv: this.#client.conv, seq: own[probe - 1] });
      if (reply.t !== 'whos' || link !== this.#client.link) return;
      await this.#learned(reply);
      if (this.furthest[what] >= own[probe - 1]) low = probe;
      else high = probe - 1;
    }
  }

  #learned({ conv, seq, users }) {
    const others = users.filter(({ user }) => user !== this.#client.user);
    const peers = others.map(({ user, delivered, read }) => [user, { delivered: delivered > 0 ? seq : 0, read: read ? seq : 0 }]);
    return this.#client.note(conv, { peers: Object.fromEntries(peers) });
  }
}
