-- +goose Up

-- One row. The incarnation names this file's own history: it is made with the file.
-- cleaned is 1 once a dedup row has been removed: from then on events decide too.
CREATE TABLE meta (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    epoch       INTEGER NOT NULL,
    incarnation TEXT    NOT NULL,
    cleaned     INTEGER NOT NULL DEFAULT 0
);

INSERT INTO meta (one, epoch, incarnation) VALUES (1, 1, lower(hex(randomblob(16))));

CREATE TABLE users (
    user_id  TEXT    NOT NULL PRIMARY KEY,
    disabled INTEGER NOT NULL DEFAULT 0,
    revoked  INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE devices (
    user_id       TEXT    NOT NULL,
    device_id     TEXT    NOT NULL,
    install       TEXT    NOT NULL,
    install_epoch INTEGER NOT NULL,
    n             INTEGER NOT NULL,
    session       INTEGER NOT NULL,
    last_seen     INTEGER NOT NULL,
    PRIMARY KEY (user_id, device_id)
) WITHOUT ROWID;

CREATE INDEX devices_by_id ON devices (device_id, user_id);

-- next_seq is the seq that the next event gets: the log ends at next_seq - 1.
-- updated_at is when the last event was stored, 0 while there is none.
CREATE TABLE conversations (
    conv_id         TEXT    NOT NULL PRIMARY KEY,
    kind            TEXT    NOT NULL,
    next_seq        INTEGER NOT NULL,
    floor           INTEGER NOT NULL,
    history         TEXT    NOT NULL,
    members_version INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX conversations_by_time ON conversations (updated_at);

-- One row per membership period; both ends are included, an open one has no to_seq.
CREATE TABLE members (
    conv_id  TEXT    NOT NULL,
    user_id  TEXT    NOT NULL,
    role     TEXT    NOT NULL,
    from_seq INTEGER NOT NULL,
    to_seq   INTEGER,
    PRIMARY KEY (conv_id, user_id, from_seq)
) WITHOUT ROWID;

CREATE INDEX members_by_user ON members (user_id, conv_id);

-- subject is the mid of a recall's target, or who joined or left; actor is who did
-- it. The table has a rowid, because rows of many conversations then go to one end
-- of it: keyed by (conv_id, seq) alone an insert cost twice as much.
CREATE TABLE events (
    conv_id  TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    mid      TEXT    NOT NULL,
    sender   TEXT    NOT NULL,
    device   TEXT    NOT NULL,
    cmid     TEXT    NOT NULL,
    type     TEXT    NOT NULL,
    body     TEXT    NOT NULL,
    ext      BLOB,
    target   INTEGER,
    recalled INTEGER NOT NULL DEFAULT 0,
    at       INTEGER NOT NULL,
    subject  TEXT,
    actor    TEXT,
    PRIMARY KEY (conv_id, seq)
);

-- Recalls are seen by whoever may see their target, so they are looked for by themselves.
CREATE INDEX events_recalls ON events (conv_id, seq, target) WHERE kind = 'recall';

-- seen counts how often the row was written; recalled rows are kept for ever. hash
-- is the caller's, or 'c' and the store's own hash where the row was made again
-- from an event (see digest.go). With a rowid the unique index, into which keys may
-- fall at random, is a third of the size of the rows: a large store misses fewer
-- pages. It has cmid first, because cmids that are made in ascending order (UUID v7,
-- a counter) then fall on a few pages, whoever makes them.
CREATE TABLE msg_dedup (
    user_id    TEXT    NOT NULL,
    cmid       TEXT    NOT NULL,
    mid        TEXT    NOT NULL,
    conv_id    TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    hash       BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    seen       INTEGER NOT NULL DEFAULT 1,
    recalled   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (cmid, user_id)
);

CREATE TABLE device_cursors (
    user_id       TEXT    NOT NULL,
    device_id     TEXT    NOT NULL,
    conv_id       TEXT    NOT NULL,
    install_epoch INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    start_seq     INTEGER NOT NULL,
    delivered_seq INTEGER NOT NULL,
    n             INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (user_id, device_id, conv_id)
) WITHOUT ROWID;

CREATE TABLE read_cursors (
    user_id    TEXT    NOT NULL,
    conv_id    TEXT    NOT NULL,
    epoch      INTEGER NOT NULL,
    read_seq   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, conv_id)
) WITHOUT ROWID;
