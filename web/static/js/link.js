// One WebSocket connection: requests and their replies by rid, frames that
// nobody asked for, and liveness. It ends once and is never reused.

const PROTOCOL = 'impart.v1.json';
const OPEN_MS = 5000; // to the open socket
const REPLY_MS = 8000; // to a reply, unless the caller says otherwise
const QUIET_MS = 10000; // without a frame before a ping is sent
const PONG_MS = 5000; // from that ping to any frame

/** A request that will get no answer: the connection ended ('closed') or took too long ('timeout'). */
export class LinkError extends Error {
  constructor(why) {
    super(`no reply: ${why}`);
    this.why = why;
  }
}

export class Link {
  #socket;
  #waiting = new Map(); // rid -> {resolve, reject, timer}
  #rid = 0;
  #heard = 0;
  #watch;
  #end;

  /** Settles when the connection is over, with the bye frame if there was one. */
  closed;
  /** True from the open socket until the end. */
  alive = false;

  /** Connects. onFrame gets every frame that is not a reply. */
  constructor(url, onFrame) {
    this.onFrame = onFrame;
    this.closed = new Promise((resolve) => { this.#end = resolve; });
    this.#socket = new WebSocket(url, PROTOCOL);
    this.opened = new Promise((resolve) => {
      const late = setTimeout(() => this.close(), OPEN_MS);
      this.#socket.onopen = () => {
        clearTimeout(late);
        this.alive = true;
        this.#heard = Date.now();
        this.#watch = setInterval(() => this.#listen(), PONG_MS);
        resolve(true);
      };
      this.#socket.onclose = () => {
        clearTimeout(late);
        this.close();
        resolve(false);
      };
    });
    this.#socket.onmessage = (message) => this.#receive(message.data);
  }

  /** Sends a request; gives its reply, an error frame included. Rejects with a LinkError. */
  request(frame, within = REPLY_MS) {
    return new Promise((resolve, reject) => {
      const rid = `r${++this.#rid}`;
      if (!this.tell({ ...frame, rid })) return reject(new LinkError('closed'));
      const timer = setTimeout(() => {
        this.#waiting.delete(rid);
        reject(new LinkError('timeout'));
      }, within);
      this.#waiting.set(rid, { resolve, reject, timer });
    });
  }

  /** Sends a frame that has no reply; false when the connection is over. */
  tell(frame) {
    if (!this.alive || this.#socket.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** Ends the connection; everything that waits is told at once. */
  close(bye) {
    this.alive = false;
    clearInterval(this.#watch);
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(new LinkError('closed'));
    }
    this.#waiting.clear();
    this.#socket.onmessage = null;
    this.#socket.close();
    this.#end(bye);
  }

  #receive(text) {
    this.#heard = Date.now();
    let frame;
    try {
      frame = JSON.parse(text);
    } catch {
      console.warn('impart: a frame that is not JSON was ignored');
      return;
    }
    if (frame.t === 'bye') return this.close(frame);
    const waiting = frame.rid === undefined ? undefined : this.#waiting.get(frame.rid);
    if (waiting) {
      this.#waiting.delete(frame.rid);
      clearTimeout(waiting.timer);
      waiting.resolve(frame);
    } else {
      this.onFrame(frame); // a push, or a reply that came after its time
    }
  }

  // Browsers cannot send WebSocket pings, and a dead network closes nothing.
  async #listen() {
    if (Date.now() - this.#heard < QUIET_MS) return;
    try {
      await this.request({ t: 'ping' }, PONG_MS);
    } catch (error) {
      if (error.why === 'timeout') this.close();
    }
  }
}
