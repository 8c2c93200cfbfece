-- The local store, version 2. One row of self: who this store belongs to, and the
-- counter n, which rises with every durable write that precedes an ack.
CREATE TABLE self (
  one           INTEGER PRIMARY KEY CHECK (one = 1),
  user          TEXT NOT NULL,
  device        TEXT NOT NULL,
  install       TEXT NOT NULL,
  install_epoch INTEGER NOT NULL,
  n             INTEGER NOT NULL,
  epoch         INTEGER NOT NULL
);
-- start < stored <= the last event; everything visible in (start, stored] is here.
-- handled: the application has it. read: read up to here; read_told: the server knows.
-- doubt: the epoch has changed, and it is not known up to where the history is the same.
-- rewinds counts how often events were taken out; rewound_to is what the application
-- has not been told of yet (NULL: nothing).
CREATE TABLE conversations (
  conv       TEXT PRIMARY KEY,
  start      INTEGER NOT NULL,
  stored     INTEGER NOT NULL,
  handled    INTEGER NOT NULL,
  floor      INTEGER NOT NULL DEFAULT 0,
  read       INTEGER NOT NULL DEFAULT 0,
  read_told  INTEGER NOT NULL DEFAULT 0,
  doubt      INTEGER NOT NULL DEFAULT 0,
  rewinds    INTEGER NOT NULL DEFAULT 0,
  rewound_to INTEGER
) WITHOUT ROWID;
CREATE INDEX conversations_owing ON conversations (conv) WHERE handled < stored OR rewound_to IS NOT NULL;
CREATE INDEX conversations_unread ON conversations (conv) WHERE read > read_told;
-- Events as the server told them, also above stored while there is a gap. place is
-- the pos that it had in the outbox of this store, 0 for what did not leave it.
CREATE TABLE events (
  conv       TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  mid        TEXT NOT NULL,
  kind       TEXT NOT NULL,
  sender     TEXT NOT NULL,
  cmid       TEXT NOT NULL,
  type       TEXT NOT NULL,
  body       TEXT NOT NULL,
  ext        BLOB,
  at         INTEGER NOT NULL,
  target     INTEGER NOT NULL,
  target_mid TEXT NOT NULL,
  user       TEXT NOT NULL,
  by         TEXT NOT NULL,
  recalled   INTEGER NOT NULL,
  place      INTEGER NOT NULL,
  PRIMARY KEY (conv, seq)
) WITHOUT ROWID;
CREATE INDEX events_mine ON events (cmid) WHERE place > 0;
CREATE INDEX events_target ON events (conv, target) WHERE target > 0;
-- Messages and recalls without a final answer, in the order of pos; those with a
-- code were refused for good and wait to be seen by the user. A pos is given once:
-- what goes back into the outbox, because it was undone, gets its own again.
CREATE TABLE outbox (
  pos        INTEGER PRIMARY KEY AUTOINCREMENT,
  cmid       TEXT NOT NULL UNIQUE,
  conv       TEXT NOT NULL,
  kind       TEXT NOT NULL,
  type       TEXT NOT NULL,
  body       TEXT NOT NULL,
  ext        BLOB,
  target     INTEGER NOT NULL,
  target_mid TEXT NOT NULL,
  at         INTEGER NOT NULL,
  code       TEXT NOT NULL DEFAULT '',
  message    TEXT NOT NULL DEFAULT ''
);
CREATE INDEX outbox_waiting ON outbox (conv, pos) WHERE code = '';
-- Messages that were cancelled after they may have been sent: should one appear in
-- the log after all, it is recalled.
CREATE TABLE cancelled (
  cmid TEXT PRIMARY KEY
) WITHOUT ROWID;
