// The rules of the local log, as steps inside one transaction: what is stored,
// how far the cursor may move, what settles an outbox item, and what a new
// history leaves standing.

import { get, keys, record } from './idb.js';

/**
 * A conversation as this device knows it. cursor: every visible event up to
 * here is stored. top: the highest seq stored, above the cursor while there is
 * a gap. read: the own read cursor. peers: {user: {delivered, read}}.
 */
function emptyRow(conv, epoch) {
  return { conv, epoch, cursor: 0, top: 0, read: 0, peers: {} };
}

/**
 * Applies batches {conv, epoch, events, after, through} and returns
 * {n, rows, changed, settled, stored, stale, conflicts}. A batch of another
 * epoch than the row's is left alone (stale): the history is reconciled first.
 * `through` counts only for a page that was asked for at or below the cursor.
 */
export async function applyBatch(tx, user, batches) {
  const out = { n: 0, rows: new Map(), changed: [], settled: [], stored: new Map(), stale: new Set(), conflicts: new Set() };
  const convs = tx.objectStore('convs');
  for (const batch of batches) {
    const { conv, epoch } = batch;
    const row = out.rows.get(conv) ?? (await get(convs, conv)) ?? emptyRow(conv, epoch);
    if (row.epoch !== epoch) {
      out.stale.add(conv);
      continue;
    }
    for (const event of batch.events) await applyEvent(tx, user, row, event, out);
    if (batch.through !== undefined && batch.after <= row.cursor) row.cursor = Math.max(row.cursor, batch.through);
    await closeGap(tx, row);
    out.rows.set(conv, row);
  }
  for (const row of out.rows.values()) await record(convs, row);
  out.n = await raiseN(tx);
  return out;
}

async function applyEvent(tx, user, row, event, out) {
  const events = tx.objectStore('events');
  const key = [row.conv, event.seq];
  const held = await get(events, key);
  if (held && held.mid !== event.mid) {
    out.conflicts.add(row.conv);
    return;
  }
  const recalled = event.recalled || held?.recalled || Boolean(await get(events.index('recalls'), key, 'getKey'));
  if (!held || (recalled && !held.recalled)) {
    const kept = recalled ? emptied(held ?? event) : event;
    await record(events, kept);
    out.changed.push(kept);
  }
  if (!held) out.stored.set(row.conv, (out.stored.get(row.conv) ?? 0) + 1);
  row.top = Math.max(row.top, event.seq);
  if (event.kind === 'recall') await emptyTarget(tx, row.conv, event, out);
  if (event.sender === user && event.cmid) await settle(tx, event.cmid, out);
}

/** A recalled message keeps its place, sender and cmid; its text is gone from this device too. */
function emptied(event) {
  const { body, ext, ...rest } = event;
  return { ...rest, recalled: true };
}

async function emptyTarget(tx, conv, recall, out) {
  const events = tx.objectStore('events');
  const target = await get(events, [conv, recall.target]);
  if (!target || target.recalled) return;
  const kept = emptied(target);
  await record(events, kept);
  out.changed.push(kept);
}

/** The log holds the message: its outbox item is done, whatever became of the reply. */
async function settle(tx, cmid, out) {
  const outbox = tx.objectStore('outbox');
  const oid = await get(outbox.index('cmid'), cmid, 'getKey');
  if (oid !== undefined) await get(outbox, oid, 'delete');
  out.settled.push(cmid);
}

async function closeGap(tx, row) {
  const events = tx.objectStore('events');
  while (row.cursor < row.top && (await get(events, [row.conv, row.cursor + 1], 'getKey')) !== undefined) row.cursor += 1;
  row.top = Math.max(row.top, row.cursor);
}

async function raiseN(tx) {
  const meta = tx.objectStore('meta');
  const self = await get(meta, 'self');
  self.n += 1;
  await record(meta, self, 'self');
  return self.n;
}

/**
 * Moves a conversation into `epoch`, of whose history the device holds
 * everything up to `keep`. Events above are dropped; own messages among them go
 * back into the outbox, before what was written later. Returns {n, row}.
 */
export async function stepEpoch(tx, user, conv, keep, epoch) {
  const convs = tx.objectStore('convs');
  const events = tx.objectStore('events');
  const row = (await get(convs, conv)) ?? emptyRow(conv, epoch);
  let undone = await get(events, above(conv, keep), 'getAll');
  // A recall that was undone brings back a text that is no longer here: fetch its message anew.
  const targets = undone.filter((event) => event.kind === 'recall').map((event) => event.target - 1);
  const firm = Math.min(keep, ...targets);
  undone = await get(events, above(conv, firm), 'getAll');
  await requeue(tx, conv, undone.flatMap((event) => backToOutbox(user, event, keep)));
  for (const key of await keys(events, above(conv, firm))) await get(events, key, 'delete');
  Object.assign(row, { epoch, cursor: firm, top: firm, read: Math.min(row.read, firm), peers: {} });
  await record(convs, row);
  return { n: await raiseN(tx), row };
}

function above(conv, seq) {
  return IDBKeyRange.bound([conv, seq], [conv, Infinity], true, false);
}

/** What must be sent again because its `sent` was undone: own texts, and own recalls of what still stands. */
function backToOutbox(user, event, keep) {
  if (event.sender !== user || !event.cmid || event.seq <= keep) return [];
  const { conv, cmid, type, body, ext } = event;
  if (event.kind === 'msg' && !event.recalled) return [{ conv, cmid, kind: 'msg', type, body, ext, tried: true }];
  if (event.kind === 'recall' && event.target <= keep) {
    return [{ conv, cmid, kind: 'recall', seq: event.target, mid: event.target_mid, tried: true }];
  }
  return [];
}

/** Puts items in front of the conversation's others; places are numbers that only rise, so all are written anew. */
async function requeue(tx, conv, first) {
  if (first.length === 0) return;
  const outbox = tx.objectStore('outbox');
  const later = (await get(outbox, null, 'getAll')).filter((item) => item.conv === conv);
  for (const item of later) await get(outbox, item.oid, 'delete');
  const known = new Set(first.map((item) => item.cmid));
  for (const item of [...first, ...later.filter((each) => !known.has(each.cmid))]) {
    const { oid, ...rest } = item;
    await record(outbox, rest);
  }
}
