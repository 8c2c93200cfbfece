// The page's words in both languages. Every text that a person reads comes from
// here; what the server says in an error is added only where no word fits.

const en = {
  'page.title': 'Impart · two people, one log',
  'page.tagline': 'Two people on one small server. Now take it away from them.',
  'page.language': 'Language',
  'try.title': 'Kill it and watch',
  'try.kill': 'Stop the server without warning. Its terminal says its PID:',
  'try.write': 'Keep writing. What you write waits here, on disk, with a clock.',
  'try.start': 'Start the server again, the way you did. Everything arrives: once, and in order.',
  'try.how': 'A message gets its first tick when its transaction has committed on the server, never before. The two sides keep their own log in this browser and fetch what they lack.',
  'legend.label': 'What the ticks mean',
  'tick.waiting': 'waiting',
  'tick.stored': 'stored',
  'tick.delivered': 'delivered',
  'tick.read': 'read',
  'tick.failed': 'not sent',
  'panel.label': '{name}, as {user}',
  'panel.device': 'device {device}',
  'panel.erase': 'Erase device',
  'panel.erase.hint': 'Forget this device’s log: it comes back as a new install and fetches everything',
  'panel.erase.confirm': 'Messages that wait to be sent would be lost: {count}. Erase this device all the same?',
  'panel.online': 'Online',
  'panel.online.label': '{name}’s connection',
  'state.starting': 'Opening',
  'state.connecting': 'Connecting',
  'state.catching-up': 'Catching up',
  'state.online': 'Connected',
  'state.away': 'Server away, retrying',
  'state.offline': 'Offline',
  'state.superseded': 'Open in another tab',
  'state.revoked': 'Access withdrawn',
  'state.refused': 'Not let in',
  'state.broken': 'Local store failed',
  'log.label': '{name}’s messages',
  'log.empty': 'Nothing here yet. Say something.',
  'log.earlier': 'Show earlier messages',
  'log.newer': 'New messages',
  'event.recalled.own': 'You took back a message',
  'event.recalled': '{name} took back a message',
  'event.join': '{name} joined',
  'event.leave': '{name} left',
  'event.other': 'An event of a kind that this page does not know ({kind})',
  'message.recall': 'Take back',
  'message.recalling': 'Taking it back …',
  'message.withdraw': 'Do not send',
  'message.remove': 'Remove',
  'message.dismiss': 'Dismiss',
  'message.withdraw.late': 'Too late: it may be on its way already.',
  'typing': '{name} is writing …',
  'waiting.away.one': '1 message waits while the server is away',
  'waiting.away.other': '{count} messages wait while the server is away',
  'waiting.offline.one': '1 message waits until {name} is online',
  'waiting.offline.other': '{count} messages wait until {name} is online',
  'waiting.sending.one': '1 message is on its way',
  'waiting.sending.other': '{count} messages are on their way',
  'composer.label': 'Message from {name}',
  'composer.placeholder': 'Write as {name}',
  'composer.send': 'Send',
  'curtain.superseded': '{name} is open in another tab. One device has one connection.',
  'curtain.superseded.act': 'Use here',
  'curtain.revoked': 'The server withdrew {name}’s access.',
  'curtain.revoked.act': 'Try again',
  'curtain.refused': 'The server does not let {name} in.',
  'curtain.refused.act': 'Try again',
  'curtain.broken': 'This browser could not keep {name}’s messages on disk, so nothing is acknowledged. Private windows and full disks do this.',
  'curtain.broken.act': 'Try again',
  'setup.title': 'This server is not set up for the demo',
  'setup.login': 'The page signs its two users in by the open dev login, which this server has switched off. Start one without IM_AUTH_… settings on a loopback address, for instance “impart serve” in an empty folder, and open the address that it prints.',
  'setup.admin': 'The page may not create its conversation here. Start the server without IM_ADMIN_TOKEN, or create it with the token: PUT /admin/v1/conversations/c-demo {"kind":"direct","members":["u-ana","u-ben"]}. Then load this page again.',
  'setup.members': 'There is a conversation c-demo here already that is not u-ana’s and u-ben’s alone. Start “impart serve” in an empty folder for the demo.',
  'refusal.BAD_FRAME': 'The server cannot keep this text as it is.',
  'refusal.NOT_MEMBER': 'Not a member of this conversation.',
  'refusal.CMID_REUSED': 'This message’s id was used for another text.',
  'refusal.TOO_LARGE': 'The text is too long.',
  'refusal.RECALL_REFUSED': 'It can no longer be taken back.',
  'refusal.CURSOR_AHEAD': 'The server does not have this message.',
  'refusal.other': 'The server refused this ({code}).',
  'page.noscript': 'This page needs JavaScript.',
};

const zh = {
  'page.title': 'Impart · 两个人，一份日志',
  'page.tagline': '两个人，一台小服务器。现在，把它停掉试试。',
  'page.language': '语言',
  'try.title': '杀掉它，看会怎样',
  'try.kill': '不打招呼，直接停掉服务器。PID 写在它的终端里：',
  'try.write': '接着写。写下的消息带着时钟图标，存在本机磁盘上等候。',
  'try.start': '再用原来的方式启动服务器。所有消息都会送到：不重、不乱。',
  'try.how': '只有当消息所在的事务在服务器上提交之后，才会出现第一个对勾。两边各自在浏览器里保存自己的日志，缺什么就取什么。',
  'legend.label': '对勾的含义',
  'tick.waiting': '等待中',
  'tick.stored': '已保存',
  'tick.delivered': '已送达',
  'tick.read': '已读',
  'tick.failed': '未发送',
  'panel.label': '{name}（{user}）',
  'panel.device': '设备 {device}',
  'panel.erase': '清空设备',
  'panel.erase.hint': '清除这台设备的日志：它会作为新安装回来，并重新取回全部消息',
  'panel.erase.confirm': '还有 {count} 条待发送的消息会丢失。仍要清空这台设备吗？',
  'panel.online': '在线',
  'panel.online.label': '{name} 的连接',
  'state.starting': '正在打开',
  'state.connecting': '正在连接',
  'state.catching-up': '正在补齐',
  'state.online': '已连接',
  'state.away': '服务器不在，正在重试',
  'state.offline': '已离线',
  'state.superseded': '已在另一个标签页打开',
  'state.revoked': '访问已被收回',
  'state.refused': '未获准登录',
  'state.broken': '本地存储出错',
  'log.label': '{name} 的消息',
  'log.empty': '还没有消息，说点什么吧。',
  'log.earlier': '显示更早的消息',
  'log.newer': '有新消息',
  'event.recalled.own': '你撤回了一条消息',
  'event.recalled': '{name} 撤回了一条消息',
  'event.join': '{name} 加入了会话',
  'event.leave': '{name} 离开了会话',
  'event.other': '本页不认识的事件（{kind}）',
  'message.recall': '撤回',
  'message.recalling': '正在撤回…',
  'message.withdraw': '不发了',
  'message.remove': '移除',
  'message.dismiss': '知道了',
  'message.withdraw.late': '来不及了：它可能已经发出。',
  'typing': '{name} 正在输入…',
  'waiting.away.one': '服务器不在，有 1 条消息在等候',
  'waiting.away.other': '服务器不在，有 {count} 条消息在等候',
  'waiting.offline.one': '有 1 条消息等 {name} 上线后发送',
  'waiting.offline.other': '有 {count} 条消息等 {name} 上线后发送',
  'waiting.sending.one': '1 条消息正在发送',
  'waiting.sending.other': '{count} 条消息正在发送',
  'composer.label': '以 {name} 的身份写消息',
  'composer.placeholder': '以 {name} 的身份写点什么',
  'composer.send': '发送',
  'curtain.superseded': '{name} 已在另一个标签页打开。一台设备只有一条连接。',
  'curtain.superseded.act': '在这里使用',
  'curtain.revoked': '服务器收回了 {name} 的访问权限。',
  'curtain.revoked.act': '再试一次',
  'curtain.refused': '服务器没有让 {name} 登录。',
  'curtain.refused.act': '再试一次',
  'curtain.broken': '浏览器没能把 {name} 的消息写入磁盘，因此不会向服务器确认任何消息。隐私窗口或磁盘已满时会这样。',
  'curtain.broken.act': '再试一次',
  'setup.title': '这台服务器没有为演示做好准备',
  'setup.login': '本页用开放的开发登录让两位用户登录，而这台服务器关闭了它。请在本机回环地址上启动一台没有 IM_AUTH_… 设置的服务器，例如在空文件夹里运行 “impart serve”，再打开它打印的地址。',
  'setup.admin': '本页无权在这里创建会话。请在不设置 IM_ADMIN_TOKEN 的情况下启动服务器，或带上令牌自行创建：PUT /admin/v1/conversations/c-demo {"kind":"direct","members":["u-ana","u-ben"]}，然后重新载入本页。',
  'setup.members': '这里已有一个 c-demo 会话，但它不只属于 u-ana 和 u-ben。请在空文件夹里运行 “impart serve” 来做演示。',
  'refusal.BAD_FRAME': '服务器无法原样保存这段文字。',
  'refusal.NOT_MEMBER': '不是这个会话的成员。',
  'refusal.CMID_REUSED': '这条消息的编号已被另一段文字用过。',
  'refusal.TOO_LARGE': '文字太长了。',
  'refusal.RECALL_REFUSED': '已经不能撤回了。',
  'refusal.CURSOR_AHEAD': '服务器上没有这条消息。',
  'refusal.other': '服务器拒绝了（{code}）。',
  'page.noscript': '本页需要 JavaScript。',
};

export const words = { en, zh };

const KEY = 'impart-demo:language';
const listeners = new Set();
let language = kept() ?? (navigator.language?.toLowerCase().startsWith('zh') ? 'zh' : 'en');

/** The language in use: 'en' or 'zh'. */
export function current() {
  return language;
}

/** Switches the language, remembers it and tells everybody who shows words. */
export function use(next) {
  language = next;
  try { localStorage.setItem(KEY, next); } catch { /* remembered for this page only */ }
  apply();
}

/** Calls back now and at each change of the language. */
export function onLanguage(callback) {
  listeners.add(callback);
  callback();
}

/** The words for a key, with {name}s filled in. */
export function t(key, values = {}) {
  return words[language][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

/** The words for a key that has a form for one and one for several. */
export function count(key, n, values = {}) {
  return t(`${key}.${n === 1 ? 'one' : 'other'}`, { ...values, count: n });
}

/** The words for a refusal by the server. */
export function refusal({ code }) {
  return words[language][`refusal.${code}`] ?? t('refusal.other', { code });
}

/** A time of day, and a day, as the language writes them. */
export function clock(ms) {
  return new Intl.DateTimeFormat(region(), { hour: 'numeric', minute: '2-digit' }).format(ms);
}

export function day(ms) {
  return new Intl.DateTimeFormat(region(), { weekday: 'long', day: 'numeric', month: 'long' }).format(ms);
}

/** Puts words into the elements that name a key in data-t, or in data-t-label for their label. */
export function fill(root, values = {}) {
  for (const element of root.querySelectorAll('[data-t]')) element.textContent = t(element.dataset.t, values);
  for (const element of root.querySelectorAll('[data-t-label]')) element.setAttribute('aria-label', t(element.dataset.tLabel, values));
}

function apply() {
  document.documentElement.lang = locale();
  document.title = t('page.title');
  for (const callback of listeners) callback();
}

function locale() {
  return language === 'zh' ? 'zh-CN' : 'en';
}

/** The person's own variant of the language, which decides how a time is written. */
function region() {
  return navigator.languages?.find((tag) => tag.toLowerCase().startsWith(language)) ?? locale();
}

function kept() {
  try {
    const value = localStorage.getItem(KEY);
    return value in words ? value : undefined;
  } catch {
    return undefined;
  }
}

apply();
