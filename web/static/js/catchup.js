// Coming level with the server: per conversation by sync, over all of them by
// pull, and, when the history itself changed, by finding how far the old and the
// new one agree. Sending to a conversation waits for this, so that a message
// that was stored long ago is found in the log instead of being sent again.

import { Backoff } from './backoff.js';

const PAGE = 200; // events a request
const GAP_MS = 120; // what is missing is usually on its way already
const GONE = -1; // no wait helps

export class CatchUp {
  #client;
  #jobs = new Map(); // conversation -> {running, again, force}
  #level = new Set(); // conversations that were level once on this link
  #gaps = new Map(); // conversation -> timer
  #pulling = false;

  constructor(client) {
    this.#client = client;
  }

  /** True once the conversation was level on this link. */
  level(conv) {
    return this.#level.has(conv);
  }

  /** True while anything is being fetched. */
  get busy() {
    return this.#jobs.size > 0 || this.#pulling;
  }

  /** A new link: nothing is known to be level. */
  reset() {
    for (const timer of this.#gaps.values()) clearTimeout(timer);
    this.#gaps.clear();
    this.#jobs.clear();
    this.#level.clear();
    this.#pulling = false;
  }

  /** The server listed every conversation in which this device lags: these others are level. */
  others(convs) {
    for (const conv of convs) if (!this.#jobs.has(conv)) this.#level.add(conv);
  }

  /** Something is missing in the middle: fetch it if it does not arrive by itself. */
  gap(conv) {
    if (this.#gaps.has(conv)) return;
    this.#gaps.set(conv, setTimeout(() => {
      this.#gaps.delete(conv);
      const row = this.#client.rows.get(conv);
      if (row && row.top > row.cursor) this.start(conv);
    }, GAP_MS));
  }

  /** Brings one conversation to its head; asked again while it runs, it looks once more. */
  start(conv, { force = false } = {}) {
    if (!this.#client.link) return; // the next connection looks at everything anyway
    const job = this.#jobs.get(conv) ?? {};
    job.again = true;
    job.force ||= force;
    if (force) this.#level.delete(conv);
    this.#jobs.set(conv, job);
    job.running ??= this.#work(conv, job);
  }

  async #work(conv, job) {
    const { link } = this.#client;
    const backoff = new Backoff();
    const mine = () => link === this.#client.link && this.#jobs.get(conv) === job;
    while (mine() && job.again) {
      job.again = false;
      let wait;
      try {
        wait = await this.#toHead(conv, job, link);
      } catch (error) {
        if (!error.why) this.#client.storageFailed(error);
        else if (error.why === 'timeout') link.close();
        break;
      }
      if (wait === undefined) {
        if (mine() && !job.force) this.#level.add(conv);
      } else {
        await new Promise((resolve) => { setTimeout(resolve, wait || 300 + backoff.next()); });
        job.again = true;
      }
    }
    if (!mine()) return;
    this.#jobs.delete(conv);
    this.#client.levelled(conv);
  }

  /** Returns undefined when there is no more to fetch, else how long to wait before another try (0: a moment). */
  async #toHead(conv, job, link) {
    const client = this.#client;
    for (let rounds = 0; rounds < 4; ) {
      const held = client.rows.get(conv);
      if (held && (job.force || held.epoch !== client.epoch)) {
        const wait = await this.#reconcile(held, link);
        if (wait > -1) return wait;
        job.force = false;
        if (wait === GONE) return undefined;
      }
      const cursor = client.rows.get(conv)?.cursor ?? 0;
      const reply = await link.request(await this.#ask(conv, cursor, PAGE));
      if (link !== client.link) return undefined;
      if (reply.t === 'error') {
        if (!historyDiffers(reply)) return this.#failed(conv, reply);
        client.adopt(reply.epoch);
        job.force = true;
        rounds += 1;
        continue;
      }
      if (client.adopt(reply.epoch)) continue;
      if (conv === client.conv) client.unreadable = undefined;
      await client.apply({ ...reply, after: cursor });
      if (!reply.more) return undefined;
      if ((client.rows.get(conv)?.cursor ?? 0) <= cursor) return 0;
    }
    return 0;
  }

  /** A page was refused: how long to wait, or undefined if waiting is of no use. */
  #failed(conv, { retry, retry_after_ms: after, code }) {
    if (retry) return after ?? 0;
    if (conv === this.#client.conv) this.#client.unreadable = code;
    return undefined;
  }

  async #ask(conv, after, limit) {
    const frame = { t: 'sync', conv, after, limit, epoch: this.#client.epoch };
    const mid = after > 0 ? await this.#client.store.midAt(conv, after) : undefined;
    return mid ? { ...frame, after_mid: mid } : frame;
  }

  /**
   * Finds the highest seq up to which the server holds the very events that
   * this device holds, and continues from there. undefined: done; GONE: nothing to
   * read here; else a wait as of toHead.
   */
  async #reconcile(row, link) {
    const client = this.#client;
    const { conv } = row;
    const seqs = await client.store.seqs(conv, row.cursor);
    let [low, high] = [0, seqs.length]; // the first `low` are known to agree, those from `high` on not to
    let probe = high; // most often nothing was lost, so the newest is asked first
    while (low < high) {
      const epoch = client.epoch;
      const reply = await link.request(await this.#ask(conv, seqs[probe - 1], 1));
      if (link !== client.link) return GONE;
      if (reply.t === 'error') {
        if (!historyDiffers(reply)) return this.#failed(conv, reply) ?? GONE;
        if (client.adopt(reply.epoch) || epoch !== client.epoch) return 0;
        high = probe - 1;
      } else {
        if (client.adopt(reply.epoch)) return 0;
        low = probe;
      }
      probe = Math.ceil((low + high) / 2);
    }
    const keep = low === seqs.length ? row.cursor : (seqs[low - 1] ?? 0);
    await client.stepEpoch(conv, keep);
    return undefined;
  }

  /** Fetches what the server knows this device to lack, over all conversations. */
  async pull() {
    if (this.#pulling) return;
    this.#pulling = true;
    const client = this.#client;
    const { link } = client;
    try {
      for (let more = true; more && link === client.link; ) {
        const reply = await link.request({ t: 'pull', limit: PAGE });
        if (link !== client.link) return;
        if (reply.t === 'error') {
          if (reply.retry) setTimeout(() => link === client.link && this.pull(), reply.retry_after_ms ?? 1000);
          break;
        }
        if (client.adopt(reply.epoch)) continue;
        more = (await this.#keep(reply)) && reply.more;
        if (!reply.more) this.others(client.rows.keys());
      }
    } catch (error) {
      if (!error.why) client.storageFailed(error);
      else if (error.why === 'timeout') link.close();
    } finally {
      if (link === client.link) this.#pulling = false;
    }
    client.levelled();
  }

  /** Stores a page and acknowledges it, since the server repeats it until then; true if that moved anything. */
  async #keep({ convs, failed, epoch }) {
    const client = this.#client;
    let moved = false;
    for (const page of convs) {
      const before = client.rows.get(page.conv)?.cursor ?? 0;
      await client.apply({ ...page, epoch, after: client.deliveredAt(page.conv) });
      moved ||= (client.rows.get(page.conv)?.cursor ?? 0) > before;
      // A page that starts above what is held leaves a hole, which only a sync fills.
      if ((client.rows.get(page.conv)?.cursor ?? 0) < page.through) this.start(page.conv);
    }
    for (const { conv } of failed ?? []) setTimeout(() => this.start(conv), 1000);
    await client.acks.flush();
    return moved;
  }
}

function historyDiffers({ code }) {
  return code === 'EPOCH_CHANGED' || code === 'CURSOR_AHEAD';
}
