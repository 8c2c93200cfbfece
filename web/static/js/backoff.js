// How long to wait before the next try: full jitter, so that clients that were
// cut off together do not come back together.

const FIRST_MS = 120; // the first retry is fast: most breaks are short
const BASE_MS = 400;
const CAP_MS = 5000; // low, for a demo
const STABLE_MS = 10000; // a connection that lasted this long clears the count

export class Backoff {
  #tries = 0;

  /** The wait before the next try, in milliseconds. */
  next() {
    const most = this.#tries === 0 ? FIRST_MS : Math.min(CAP_MS, BASE_MS * 2 ** this.#tries);
    this.#tries += 1;
    return Math.random() * most;
  }

  /** Tells how long the last connection lasted. */
  lasted(ms) {
    if (ms >= STABLE_MS) this.#tries = 0;
  }

  reset() {
    this.#tries = 0;
  }
}

/** A wait that ends early when `wake` is called on it. */
export class Pause {
  #wake = () => {};

  wait(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  wake() {
    this.#wake();
  }
}
