// What the tests know of the page: it is read and used through its elements
// alone. Loaded into each document before the page's own scripts.
globalThis.probe = (() => {
  const history = new Map(); // "user cmid" -> states shown, in order

  const panel = (user) => document.querySelector(`.panel[data-user="${user}"]`);
  const messages = (user) => [...(panel(user)?.querySelectorAll('.messages > .message') ?? [])];
  const shown = (element) => Boolean(element && element.checkVisibility());

  function note(element, state = element.dataset.state) {
    const user = element.closest('.panel')?.dataset.user;
    const { cmid } = element.dataset;
    if (!user || !cmid || !state) return;
    const states = history.get(`${user} ${cmid}`) ?? [];
    if (states.at(-1) !== state) states.push(state);
    history.set(`${user} ${cmid}`, states);
  }

  new MutationObserver((records) => {
    for (const { target, addedNodes, type, oldValue } of records) {
      if (type === 'attributes' && target.matches('.message')) {
        // Several changes may lie between two calls: the old value tells of the one before.
        note(target, oldValue);
        note(target);
      }
      for (const node of addedNodes) if (node.matches?.('.message')) note(node);
    }
  }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-state'], attributeOldValue: true });

  // A network that loses what arrives: frames for which `lose` is true never reach the page. And a server in
  // trouble: frames for which `refuse` is true never reach it, and are answered as UNAVAILABLE.
  const sockets = new Set();
  let lose = () => false;
  let lost = 0;
  let refuse = () => false;
  let refused = 0;
  const NativeSocket = WebSocket;
  globalThis.WebSocket = class extends NativeSocket {
    constructor(...rest) {
      super(...rest);
      sockets.add(this);
    }

    send(text) {
      const frame = JSON.parse(text);
      if (!refuse(frame)) return super.send(text);
      refused += 1;
      const data = JSON.stringify({ t: 'error', rid: frame.rid, code: 'UNAVAILABLE', message: 'try again', retry: true });
      setTimeout(() => this.dispatchEvent(new MessageEvent('message', { data })), 50);
    }

    set onmessage(receive) {
      super.onmessage = receive && ((message) => {
        if (lose(JSON.parse(message.data))) lost += 1;
        else receive(message);
      });
    }
  };

  /** Everything that the local stores of all users keep in one object store. */
  async function stored(store) {
    const all = [];
    for (const { name } of await indexedDB.databases()) {
      const db = await new Promise((resolve, reject) => {
        const request = indexedDB.open(name);
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
      });
      const request = db.transaction(store).objectStore(store).getAll();
      await new Promise((resolve) => { request.onsuccess = resolve; });
      all.push(...request.result);
      db.close();
    }
    return all;
  }

  return {
    panel,
    waiting: (user) => Number(panel(user).querySelector('.waiting').dataset.count),
    lines: (user) => messages(user).map((element) => ({
      body: element.querySelector('.body').textContent,
      state: element.dataset.state,
      own: element.classList.contains('own'),
      recalled: element.classList.contains('recalled'),
      cmid: element.dataset.cmid,
      seq: Number(element.dataset.seq ?? 0),
      problem: element.querySelector('.problem').textContent,
      act: element.querySelector('.act').hidden ? '' : element.querySelector('.act').textContent,
    })),
    shown: (user, part) => shown(panel(user).querySelector(part)),

    /** Presses a key in the field; true if the page took it for its own. */
    presses(user, key) {
      const event = new KeyboardEvent('keydown', { bubbles: true, cancelable: true, ...key });
      panel(user).querySelector('textarea').dispatchEvent(event);
      return event.defaultPrevented;
    },

    /** Starts to send so many messages, one every few milliseconds. */
    burst(user, count) {
      const form = panel(user).querySelector('.composer');
      for (let i = 0; i < count; i += 1) {
        setTimeout(() => {
          form.querySelector('textarea').value = `burst ${i}`;
          form.requestSubmit();
        }, i * 15);
      }
    },

    box: (user) => panel(user).getBoundingClientRect(),
    device: (user) => panel(user).querySelector('.device span').textContent.split(' · ')[1],

    /** Whether any event or outbox item of either user's local store holds a text. */
    holds: async (text) => JSON.stringify([await stored('events'), await stored('outbox')]).includes(text),

    /** How many outbox items the local stores of both users hold. */
    outbox: async () => (await stored('outbox')).length,

    /** Elements that should carry words and do not. */
    wordless: () => [...document.querySelectorAll('button, [data-t], h2')]
      .filter((element) => shown(element) && (!element.textContent.trim() || /undefined|null|\{/.test(element.textContent)))
      .map((element) => element.outerHTML.slice(0, 80)),

    /** Elements that reach beyond the side of the screen. */
    spill: () => [...document.querySelectorAll('body *')]
      .filter((element) => shown(element) && (element.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5 || element.getBoundingClientRect().left < 0))
      .map((element) => `${element.tagName}.${element.getAttribute('class')}`)
      .concat(document.documentElement.scrollWidth > document.documentElement.clientWidth ? ['the page scrolls sideways'] : []),

    /** Controls and regions without an accessible name. */
    nameless: () => [...document.querySelectorAll('button, textarea, [role]:not([role="status"], [role="alert"]), section')]
      .filter((element) => shown(element) && !element.getAttribute('aria-label') && !element.getAttribute('aria-labelledby') && !(element.tagName === 'BUTTON' && element.textContent.trim()))
      .map((element) => element.outerHTML.slice(0, 80)),

    /** Texts whose contrast with what is behind them is below 4.5 to 1 (WCAG AA). */
    faint() {
      const paint = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
      const rgba = (colour) => {
        paint.clearRect(0, 0, 1, 1);
        paint.fillStyle = colour;
        paint.fillRect(0, 0, 1, 1);
        return [...paint.getImageData(0, 0, 1, 1).data].map((part) => part / 255);
      };
      const over = ([r, g, b, a], under) => [r, g, b].map((part, i) => part * a + under[i] * (1 - a));
      const behind = (element) => (element ? over(rgba(getComputedStyle(element).backgroundColor), behind(element.parentElement)) : [1, 1, 1]);
      const light = (colour) => {
        const [r, g, b] = colour.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const faint = [];
      for (const element of document.querySelectorAll('body *')) {
        const texts = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
        if (!(texts || element.matches('svg.tick')) || !shown(element) || element.closest('[inert]')) continue;
        const ground = behind(element);
        const [a, b] = [light(over(rgba(getComputedStyle(element).color), ground)), light(ground)];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < (texts ? 4.5 : 3)) faint.push(`${element.tagName}.${element.getAttribute('class')} ${element.textContent.trim().slice(0, 20)} ${contrast.toFixed(2)}`);
      }
      return faint;
    },

    lose(which) { lose = which ?? (() => false); },
    lost: () => lost,
    refuse(which) { refuse = which; },
    refused: () => refused,
    cut() { for (const socket of sockets) socket.close(); },

    ticks: (user, cmid) => history.get(`${user} ${cmid}`) ?? [],
    act(user, body) {
      const message = messages(user).find((element) => element.querySelector('.body').textContent === body);
      const button = message?.querySelector('.act');
      if (!button || button.hidden) return false;
      button.click();
      return true;
    },
    fill(selector, text) {
      const field = document.querySelector(selector);
      field.value = text;
      field.dispatchEvent(new Event('input', { bubbles: true }));
      return true;
    },
    async until(condition, within) {
      for (const end = performance.now() + within; performance.now() < end; ) {
        if (condition()) return true;
        await new Promise((resolve) => { setTimeout(resolve, 20); });
      }
      return false;
    },
  };
})();
