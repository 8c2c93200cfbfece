// The list of messages in a panel: the log up to the cursor, then what waits.
// A message keeps its element from the outbox to the read tick, and its text
// enters the page as text only.

import { clock, day, refusal, t } from './i18n.js';

const NEAR_PX = 60; // this close to the end counts as being at the end

export class Messages {
  #client;
  #names;
  #log;
  #list;
  #newer;
  #lines = new Map(); // key -> {element, seq}
  #inView = new Set(); // elements of others' messages
  #watcher;
  #follow = true; // keep the end in view
  #note = new Map(); // cmid -> words that answer a click

  constructor({ client, names, log, newer, viewed }) {
    this.#client = client;
    this.#names = names;
    this.#log = log;
    this.#list = log.querySelector('.messages');
    this.#newer = newer;
    this.#watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.#inView.add(target);
        else this.#inView.delete(target);
      }
      viewed();
    }, { threshold: 0.6 });
    log.addEventListener('scroll', () => {
      this.#follow = this.#atEnd();
      if (this.#follow) this.#newer.hidden = true;
    }, { passive: true });
    new ResizeObserver(() => {
      if (this.#follow) this.follow();
    }).observe(log);
    newer.addEventListener('click', () => this.follow());
    log.querySelector('.earlier').addEventListener('click', () => this.#showEarlier());
  }

  /** The highest seq of another's message that is in view, or 0. */
  get newestInView() {
    return Math.max(0, ...[...this.#inView].map((element) => Number(element.dataset.seq)));
  }

  nameOf(user) {
    return this.#names[user] ?? user;
  }

  /** Goes to the end and stays there. */
  follow() {
    this.#follow = true;
    this.#newer.hidden = true;
    this.#log.scrollTop = this.#log.scrollHeight;
  }

  /** The language changed: every line is written anew. */
  relabel() {
    for (const line of this.#lines.values()) line.shown = undefined;
  }

  draw() {
    const lines = this.#wanted();
    const keys = new Set(lines.map(({ key }) => key));
    for (const [key, { element }] of this.#lines) {
      if (keys.has(key)) continue;
      this.#forget(element);
      this.#lines.delete(key);
    }
    let place = this.#list.firstElementChild;
    let grown = false;
    for (const line of lines) {
      const held = this.#lines.get(line.key) ?? this.#make(line);
      if (!held.element.isConnected) grown = true;
      if (held.element === place) place = place.nextElementSibling;
      else this.#list.insertBefore(held.element, place);
      this.#write(held, line);
    }
    this.#log.querySelector('.empty').hidden = lines.length > 0;
    this.#log.querySelector('.earlier').hidden = !this.#client.hasEarlier;
    if (this.#follow) this.follow();
    else if (grown) this.#newer.hidden = false;
  }

  /** The lines to show, in order: days, events up to the cursor, own ones stored above it, and the outbox. */
  #wanted() {
    const { events, rows, conv, user, outbox } = this.#client;
    const cursor = rows.get(conv)?.cursor ?? 0;
    const sending = this.#client.caughtUp(conv); // what waits is on its way in a moment
    const recalls = new Map(outbox.items.filter(({ kind }) => kind === 'recall').map((item) => [item.mid, item]));
    const lines = [];
    let last = '';
    const add = (line) => {
      const date = new Date(line.at ?? Date.now()).toDateString();
      if (date !== last) lines.push({ key: `day:${date}`, kind: 'day', at: line.at ?? Date.now() });
      last = date;
      lines.push(line);
    };
    for (const event of [...events.values()].sort((a, b) => a.seq - b.seq)) {
      if (event.kind === 'recall' || (event.seq > cursor && event.sender !== user)) continue;
      add({ ...event, key: keyOf(event), state: this.#stateOf(event), recall: recalls.get(event.mid) });
    }
    for (const item of outbox.items) {
      if (item.kind !== 'msg') continue;
      add({ ...item, key: keyOf({ ...item, sender: user }), sender: user, state: item.error ? 'failed' : 'waiting', item, free: !item.tried && !sending });
    }
    return lines;
  }

  #stateOf({ sender, seq }) {
    if (sender !== this.#client.user) return '';
    const { delivered, read } = this.#client.peers.furthest;
    if (seq <= read) return 'read';
    return seq <= delivered ? 'delivered' : 'stored';
  }

  #make({ key, kind }) {
    let element;
    if (kind === 'msg') {
      element = document.querySelector('#message').content.cloneNode(true).firstElementChild;
      element.querySelector('.act').addEventListener('click', () => this.#act(key));
    } else {
      element = document.createElement('li');
      element.className = kind === 'day' ? 'day' : 'notice';
    }
    const held = { element };
    this.#lines.set(key, held);
    return held;
  }

  /** Writes a line into its element if anything about it changed. */
  #write(held, line) {
    const shown = JSON.stringify([line.seq, line.state, line.recalled, line.recall, line.item, line.free, this.#note.get(line.cmid)]);
    held.line = line;
    if (held.shown === shown) return;
    held.shown = shown;
    const { element } = held;
    if (line.seq) element.dataset.seq = line.seq;
    if (line.kind === 'msg') this.#writeMessage(element, line);
    else element.textContent = this.#noticeText(line);
  }

  #writeMessage(element, line) {
    const own = line.sender === this.#client.user;
    element.classList.toggle('own', own);
    element.classList.toggle('recalled', Boolean(line.recalled));
    element.dataset.state = line.state;
    element.dataset.cmid = line.cmid ?? '';
    element.querySelector('.body').textContent = line.recalled ? this.#recalledText(line) : line.body;
    const time = element.querySelector('time');
    time.textContent = line.at ? clock(line.at) : '';
    if (line.at) time.dateTime = new Date(line.at).toISOString();
    const tick = element.querySelector('.tick');
    tick.toggleAttribute('hidden', !own || Boolean(line.recalled));
    if (own) this.#writeTick(tick, line.state);
    this.#writeAside(element, line, own);
    // Others' messages that have a place in the log are watched: what is looked at gets read.
    if (!own && !line.recalled) this.#watcher.observe(element);
  }

  #writeTick(tick, state) {
    tick.dataset.state = state;
    tick.setAttribute('aria-label', t(`tick.${state}`));
    tick.querySelector('use').setAttribute('href', `#tick-${state === 'read' ? 'delivered' : state}`);
  }

  #writeAside(element, line, own) {
    const { item, recall } = line;
    const error = item?.error ?? recall?.error;
    let [note, act] = [item ? this.#note.get(line.cmid) ?? '' : '', ''];
    if (error) [note, act] = [refusal(error), item ? 'message.remove' : 'message.dismiss'];
    else if (recall) note = t('message.recalling');
    else if (item) act = line.free ? 'message.withdraw' : '';
    else if (own && !line.recalled) act = 'message.recall';
    const problem = element.querySelector('.problem');
    problem.textContent = note;
    problem.title = error?.message ?? '';
    const button = element.querySelector('.act');
    button.hidden = !act;
    button.textContent = act ? t(act) : '';
    element.classList.toggle('plain', act === 'message.recall' || (!act && !note));
  }

  async #act(key) {
    const { item, recall, conv, seq, mid, cmid } = this.#lines.get(key).line;
    const { outbox } = this.#client;
    try {
      if (recall) await outbox.withdraw(recall);
      else if (!item) await outbox.recall({ conv, seq, mid });
      else if (!(await outbox.withdraw(item))) this.#note.set(cmid, t('message.withdraw.late'));
      this.#client.changed();
    } catch (error) {
      this.#client.storageFailed(error);
    }
  }

  #recalledText({ sender }) {
    return sender === this.#client.user ? t('event.recalled.own') : t('event.recalled', { name: this.nameOf(sender) });
  }

  #noticeText({ kind, at, user }) {
    if (kind === 'day') return day(at);
    if (kind === 'join' || kind === 'leave') return t(`event.${kind}`, { name: this.nameOf(user) });
    return t('event.other', { kind });
  }

  #forget(element) {
    this.#watcher.unobserve(element);
    this.#inView.delete(element);
    element.remove();
  }

  #atEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.#log;
    return scrollHeight - scrollTop - clientHeight < NEAR_PX;
  }

  /** Adds older messages above without moving what is in view. */
  async #showEarlier() {
    const log = this.#log;
    const below = log.scrollHeight - log.scrollTop;
    this.#follow = false;
    await this.#client.showEarlier();
    this.draw();
    this.#newer.hidden = true;
    log.scrollTop = log.scrollHeight - below;
  }
}

/** One key for a message from its outbox item to its event. */
function keyOf({ kind, sender, cmid, mid, seq }) {
  return kind === 'msg' && cmid ? `msg:${sender}:${cmid}` : `event:${mid ?? seq}`;
}
