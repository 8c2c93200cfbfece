// The life of the connection: when to connect, what is said first, what is done
// with frames that nobody asked for, and when to come back.

import { Backoff, Pause } from './backoff.js';
import { LinkError, Link } from './link.js';

/** Byes after which the client does not return by itself. */
const FINAL = { SUPERSEDED: 'superseded', REVOKED: 'revoked' };

export class Session {
  #client;
  #wanted = false;
  #running = null;
  #backoff = new Backoff();
  #pause = new Pause();

  constructor(client) {
    this.#client = client;
  }

  start() {
    this.#wanted = true;
    this.#backoff.reset();
    this.#pause.wake();
    this.#running ??= this.#run().finally(() => { this.#running = null; });
  }

  async stop(state) {
    this.#wanted = false;
    this.#client.show(state);
    this.#pause.wake();
    this.#client.link?.close();
    await this.#running;
  }

  nudge() {
    this.#pause.wake();
  }

  async #run() {
    const client = this.#client;
    if (client.state !== 'away') client.show('connecting');
    while (this.#wanted) {
      const began = Date.now();
      const end = await this.#connection();
      client.lost();
      if (!this.#wanted) return;
      if (end.final) {
        this.#wanted = false;
        client.show(end.final);
        return;
      }
      client.show('away');
      if (end.ready) this.#backoff.lasted(Date.now() - began);
      await this.#pause.wait(end.wait ?? this.#backoff.next());
    }
  }

  /** One connection from its start to its end: {final, wait, ready}. */
  async #connection() {
    const client = this.#client;
    try {
      await client.prepare();
    } catch {
      return {}; // the server is away
    }
    if (!this.#wanted) return {};
    const link = new Link(client.url, (frame) => this.#push(link, frame));
    client.link = link;
    if (!(await link.opened)) return {};
    let refused;
    try {
      refused = await this.#greet(link);
    } catch (error) {
      if (!(error instanceof LinkError)) client.storageFailed(error);
    }
    const { ready } = client;
    if (!ready) link.close();
    const bye = await link.closed;
    if (bye) return { ready, final: bye.final && (FINAL[bye.code] ?? 'refused'), wait: bye.reconnect_after_ms };
    return { ready, final: refused && !refused.retry && 'refused', wait: refused?.retry_after_ms };
  }

  /** Says hello, acknowledges what a new install epoch forgot, subscribes. Returns the error if it is refused. */
  async #greet(link) {
    const client = this.#client;
    const { device, install, installEpoch, n } = await client.store.self();
    client.n = n;
    const welcome = await link.request({ t: 'hello', token: client.token, device, install, n, proto: 1, features: [] });
    if (welcome.t === 'error') return welcome;
    client.limits = { ...client.limits, ...welcome.limits };
    client.epoch = welcome.epoch;
    client.show('catching-up');
    if (welcome.install_epoch !== installEpoch) {
      await client.acks.everything();
      await client.store.setInstallEpoch(welcome.install_epoch);
    }
    const subbed = await link.request({ t: 'sub' });
    if (subbed.t === 'error') return subbed;
    if (link !== client.link) return undefined;
    client.ready = true;
    this.#catchUp(subbed);
    return undefined;
  }

  #catchUp({ convs, more, epoch }) {
    const client = this.#client;
    client.adopt(epoch);
    for (const row of client.rows.values()) {
      if (row.epoch !== client.epoch) client.catchUp.start(row.conv, { force: true });
    }
    // The watched conversation always asks: with after_mid that also proves that both hold one history.
    client.catchUp.start(client.conv);
    for (const conv of convs) this.#standing(conv);
    if (more) client.catchUp.pull();
    else client.catchUp.others(client.rows.keys());
    client.acks.flush();
    this.#standings();
  }

  /** Where the server sees this device and its user in one conversation. */
  #standing({ conv, head, delivered, read }) {
    const client = this.#client;
    client.delivered(conv, delivered);
    client.reads.known(conv, read);
    const cursor = client.rows.get(conv)?.cursor ?? 0;
    if (head > cursor) client.catchUp.start(conv);
    else if (delivered < cursor) client.acks.note(conv, 0);
  }

  /** Pages through all conversations: read cursors may have moved elsewhere while this device was away. */
  async #standings() {
    const client = this.#client;
    const { link } = client;
    try {
      for (let after, more = true; more; ) {
        const reply = await link.request({ t: 'convs', limit: 200, ...(after && { after }) });
        if (reply.t === 'error' || link !== client.link) return;
        for (const conv of reply.convs) this.#standing(conv);
        after = reply.convs.at(-1)?.conv;
        more = reply.more && Boolean(after);
      }
    } catch (error) {
      if (!(error instanceof LinkError)) client.storageFailed(error);
    }
  }

  #push(link, frame) {
    const client = this.#client;
    if (link !== client.link) return;
    switch (frame.t) {
      case 'event':
        client.received(frame.epoch, [frame.ev]).catch((error) => client.storageFailed(error));
        break;
      case 'hint':
        this.#hint(frame);
        break;
      case 'receipt':
        client.peers.receipt(frame);
        break;
      case 'typing':
        client.peers.typing(frame);
        break;
      case 'error':
        console.warn(`impart: ${frame.code}: ${frame.message}`);
        break;
      default: // an unknown frame, or a reply after its time
    }
  }

  #hint({ conv, head, epoch, why }) {
    const client = this.#client;
    if (!client.ready || client.adopt(epoch)) return;
    if (why === 'overflow') client.peers.forget(); // receipts were dropped too
    if (!conv) client.catchUp.pull();
    else if (head > (client.rows.get(conv)?.cursor ?? 0)) client.catchUp.start(conv);
    else client.acks.note(conv, 0); // stored already: the ack got lost
  }
}
