// One user's panel: it shows a client and passes on what the person does. It
// keeps nothing that matters; everything shown is read from the client.

import { count, onLanguage, t } from './i18n.js';
import { Messages } from './messages.js';

const SEEN_MS = 700; // how long a message must be in view before it counts as read
const CURTAINS = new Set(['superseded', 'revoked', 'refused', 'broken']);
const OFF = new Set(['offline', ...CURTAINS]);

export class Panel {
  #client;
  #name;
  #messages;
  #drawn = true;
  #seenTimer;

  constructor({ client, name, names }) {
    this.#client = client;
    this.#name = name;
    this.element = document.querySelector('#panel').content.cloneNode(true).firstElementChild;
    this.element.dataset.user = client.user;
    this.#part('.avatar').textContent = name.slice(0, 1);
    this.#part('h2').textContent = name;
    this.#messages = new Messages({ client, names, log: this.#part('.log'), newer: this.#part('.newer'), viewed: () => this.#viewed() });
    this.#listen();
    onLanguage(() => {
      this.#label();
      this.#messages.relabel();
      this.#draw();
    });
  }

  /** The client changed: draws once for all changes until the next frame. */
  changed() {
    if (!this.#drawn) return;
    this.#drawn = false;
    const draw = () => {
      if (!this.#drawn) this.#draw();
    };
    // A hidden page gets no animation frames.
    if (document.hidden) setTimeout(draw);
    else requestAnimationFrame(draw);
  }

  #part(selector) {
    return this.element.querySelector(selector);
  }

  #listen() {
    const client = this.#client;
    const [form, field] = [this.#part('.composer'), this.#part('textarea')];
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#send(field);
    });
    field.addEventListener('keydown', (event) => {
      // While an input method composes, Enter chooses a word; some browsers tell it only by key code 229.
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.#send(field);
    });
    field.addEventListener('input', () => {
      if (field.value) client.typing();
    });
    this.#part('.switch').addEventListener('click', () => {
      if (OFF.has(client.state)) client.goOnline();
      else client.goOffline();
    });
    this.#part('.curtain button').addEventListener('click', () => client.start());
    this.#part('.erase').addEventListener('click', () => this.#erase());
    document.addEventListener('visibilitychange', () => this.#viewed());
  }

  async #send(field) {
    const body = field.value.trim();
    if (!body) return;
    field.value = '';
    this.#messages.follow();
    try {
      await this.#client.send(body);
    } catch (error) {
      field.value = body; // it is nowhere else
      this.#client.storageFailed(error);
    }
  }

  #erase() {
    const waiting = this.#waiting();
    if (waiting > 0 && !confirm(t('panel.erase.confirm', { count: waiting }))) return;
    this.#client.erase();
  }

  /** What is in view has been read once it stayed there for a moment. */
  #viewed() {
    clearTimeout(this.#seenTimer);
    this.#seenTimer = setTimeout(() => {
      const seq = this.#messages.newestInView;
      if (!document.hidden && seq > 0) this.#client.seen(seq);
    }, SEEN_MS);
  }

  #waiting() {
    return this.#client.outbox.items.filter((item) => !item.error).length;
  }

  #label() {
    const name = this.#name;
    this.element.setAttribute('aria-label', t('panel.label', { name, user: this.#client.user }));
    this.#part('.log').setAttribute('aria-label', t('log.label', { name }));
    this.#part('.empty').textContent = t('log.empty');
    this.#part('.earlier').textContent = t('log.earlier');
    this.#part('.newer').textContent = t('log.newer');
    this.#part('.erase').textContent = t('panel.erase');
    this.#part('.erase').title = t('panel.erase.hint');
    this.#part('.switch .words').textContent = t('panel.online');
    this.#part('.switch').setAttribute('aria-label', t('panel.online.label', { name }));
    this.#part('textarea').setAttribute('aria-label', t('composer.label', { name }));
    this.#part('textarea').placeholder = t('composer.placeholder', { name });
    this.#part('.composer button').textContent = t('composer.send');
  }

  #draw() {
    this.#drawn = true;
    const client = this.#client;
    const { state } = client;
    this.element.dataset.state = state;
    write(this.#part('.pill .words'), t(`state.${state}`));
    write(this.#part('.device span'), client.device ? `${client.user} · ${client.device}` : client.user);
    this.#part('.switch').setAttribute('aria-checked', String(!OFF.has(state)));
    this.#drawWaiting(state);
    this.#drawCurtain(state);
    const typing = client.peers.typists.length > 0;
    write(this.#part('.typing'), typing ? t('typing', { name: this.#messages.nameOf(client.peers.typists[0]) }) : '');
    this.#messages.draw();
  }

  #drawWaiting(state) {
    const waiting = this.#waiting();
    const line = this.#part('.waiting');
    line.dataset.count = String(waiting);
    let reason = 'sending';
    if (state === 'offline') reason = 'offline';
    else if (state !== 'online' && state !== 'catching-up') reason = 'away';
    write(line, waiting > 0 ? count(`waiting.${reason}`, waiting, { name: this.#name }) : '');
    line.dataset.reason = reason;
  }

  #drawCurtain(state) {
    const curtain = this.#part('.curtain');
    const down = CURTAINS.has(state);
    if (down) {
      write(curtain.querySelector('p'), t(`curtain.${state}`, { name: this.#name }));
      write(curtain.querySelector('button'), t(`curtain.${state}.act`));
    }
    curtain.hidden = !down;
    for (const part of ['.composer', '.log', '.who']) this.#part(part).inert = down;
  }
}

/** Sets a text only if it differs, so that a live region speaks only of changes. */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
