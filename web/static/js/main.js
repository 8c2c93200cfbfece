// The demo: two devices of two users in one conversation, both in this page.

import { Client } from './client.js';
import { current, fill, onLanguage, t, use } from './i18n.js';
import { Panel } from './view.js';

const CONV = 'c-demo';
const USERS = [
  { user: 'u-ana', name: 'Ana' },
  { user: 'u-ben', name: 'Ben' },
];
const PREPARE_MS = 5000;

const setup = document.querySelector('.setup');
let hindrance; // why the demo cannot run on this server: a key of the words
let creation; // what hindered the making of the conversation; it may exist all the same

function hinder(key) {
  hindrance = key;
  setup.hidden = !key;
  document.querySelector('.try').hidden = Boolean(key);
  setup.querySelector('p').textContent = key ? t(key) : '';
}

/** Makes the conversation, again at each connection: the server's data may be new. Rejects when nobody answers. */
async function prepare() {
  const response = await fetch(`/admin/v1/conversations/${CONV}`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ kind: 'direct', members: USERS.map(({ user }) => user) }),
    signal: AbortSignal.timeout(PREPARE_MS),
  });
  if (response.status >= 500 || response.status === 429) throw new Error(`the server answered ${response.status}`);
  if (response.ok) creation = undefined;
  else creation = response.status === 401 || response.status === 403 ? 'setup.admin' : 'setup.members';
}

function judge(clients) {
  let key;
  if (clients.some(({ state }) => state === 'refused')) key = 'setup.login';
  else if (creation && clients.some(({ unreadable }) => unreadable)) key = creation;
  if (key !== hindrance) hinder(key);
}

function main() {
  const url = `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/v1/ws`;
  const place = document.querySelector('.panels');
  const clients = [];
  for (const { user, name } of USERS) {
    let panel;
    const client = new Client({
      user,
      token: `dev:${user}`,
      url,
      conv: CONV,
      prepare,
      changed() {
        panel.changed();
        judge(clients);
      },
    });
    panel = new Panel({ client, name, names: Object.fromEntries(USERS.map((each) => [each.user, each.name])) });
    place.append(panel.element);
    clients.push(client);
  }
  onLanguage(() => {
    fill(document);
    if (hindrance) hinder(hindrance);
    for (const button of document.querySelectorAll('[data-language]')) {
      button.setAttribute('aria-pressed', String(button.dataset.language === current()));
    }
  });
  for (const button of document.querySelectorAll('[data-language]')) {
    button.addEventListener('click', () => use(button.dataset.language));
  }
  const nudge = () => clients.forEach((client) => client.nudge());
  addEventListener('online', nudge);
  document.addEventListener('visibilitychange', () => document.hidden || nudge());
  for (const client of clients) client.start();
}

main();
