-- +goose Up

-- Ids are compared and ordered byte for byte, whatever the locale of the database:
-- hence COLLATE "C". A body and its ext are bytes: text here cannot hold U+0000.
-- Times are milliseconds since 1970 UTC; flags are 0 or 1, as in the other databases.

-- One row. incarnation is the history of the database that was accepted last, and
-- judged rises with each acceptance. cleaned is 1 once a dedup row has been removed:
-- from then on events decide too.
CREATE TABLE meta (
    one         SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
    epoch       BIGINT   NOT NULL,
    incarnation TEXT COLLATE "C" NOT NULL,
    judged      BIGINT   NOT NULL DEFAULT 0,
    cleaned     SMALLINT NOT NULL DEFAULT 0
);

INSERT INTO meta (one, epoch, incarnation) VALUES (1, 1, '');

-- Who serves the store: beat rises, and what was committed before a beat that is
-- here is here.
CREATE TABLE nodes (
    node    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name    TEXT COLLATE "C" NOT NULL,
    beat    BIGINT NOT NULL,
    beat_at BIGINT NOT NULL
);

-- What each node knew of a change of incarnation. judged is meta's number after the
-- judgement that counted the verdict, 0 until then.
CREATE TABLE verdicts (
    change   TEXT COLLATE "C" NOT NULL,
    node     TEXT COLLATE "C" NOT NULL,
    name     TEXT COLLATE "C" NOT NULL,
    checked  BIGINT   NOT NULL,
    missing  BIGINT   NOT NULL,
    lost     BIGINT   NOT NULL,
    epoch    BIGINT   NOT NULL,
    behind   SMALLINT NOT NULL,
    vouched  SMALLINT NOT NULL,
    given_at BIGINT   NOT NULL,
    judged   BIGINT   NOT NULL,
    PRIMARY KEY (change, node)
);

CREATE TABLE users (
    user_id  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    disabled SMALLINT NOT NULL DEFAULT 0,
    revoked  BIGINT   NOT NULL DEFAULT 0
);

CREATE TABLE devices (
    user_id       TEXT COLLATE "C" NOT NULL,
    device_id     TEXT COLLATE "C" NOT NULL,
    install       TEXT COLLATE "C" NOT NULL,
    install_epoch BIGINT NOT NULL,
    n             BIGINT NOT NULL,
    session       BIGINT NOT NULL,
    last_seen     BIGINT NOT NULL,
    PRIMARY KEY (user_id, device_id)
);

CREATE INDEX devices_by_id ON devices (device_id, user_id);

-- next_seq is the seq that the next event gets: the log ends at next_seq - 1.
-- updated_at is when the last event was stored, 0 while there is none.
CREATE TABLE conversations (
    conv_id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    kind            TEXT COLLATE "C" NOT NULL,
    next_seq        BIGINT NOT NULL,
    floor           BIGINT NOT NULL,
    history         TEXT COLLATE "C" NOT NULL,
    members_version BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    updated_second  BIGINT NOT NULL GENERATED ALWAYS AS (updated_at / 1000) STORED
) WITH (fillfactor = 70);

-- By the second: a row that is written again within one needs no new entry, and its
-- new version stays on its page.
CREATE INDEX conversations_by_second ON conversations (updated_second);

-- One row per membership period; both ends are included, an open one has no to_seq.
CREATE TABLE members (
    conv_id  TEXT COLLATE "C" NOT NULL,
    user_id  TEXT COLLATE "C" NOT NULL,
    role     TEXT COLLATE "C" NOT NULL,
    from_seq BIGINT NOT NULL,
    to_seq   BIGINT,
    PRIMARY KEY (conv_id, user_id, from_seq)
);

CREATE INDEX members_by_user ON members (user_id, conv_id);

-- subject is the mid of a recall's target, or who joined or left; actor is who did it.
CREATE TABLE events (
    conv_id  TEXT COLLATE "C" NOT NULL,
    seq      BIGINT NOT NULL,
    kind     TEXT COLLATE "C" NOT NULL,
    mid      TEXT COLLATE "C" NOT NULL,
    sender   TEXT COLLATE "C" NOT NULL,
    device   TEXT COLLATE "C" NOT NULL,
    cmid     TEXT COLLATE "C" NOT NULL,
    type     TEXT COLLATE "C" NOT NULL,
    body     BYTEA  NOT NULL,
    ext      BYTEA,
    target   BIGINT,
    recalled SMALLINT NOT NULL DEFAULT 0,
    at       BIGINT NOT NULL,
    subject  TEXT COLLATE "C",
    actor    TEXT COLLATE "C",
    PRIMARY KEY (conv_id, seq)
);

-- Recalls are seen by whoever may see their target, so they are looked for by themselves.
CREATE INDEX events_recalls ON events (conv_id, seq, target) WHERE kind = 'recall';

-- seen counts how often the row was written; recalled rows are kept for ever. hash
-- is the caller's, or 'c' and the store's own hash where the row was made again
-- from an event. The key has cmid first, because cmids that are made in ascending
-- order (UUID v7, a counter) then fall on a few pages, whoever makes them.
CREATE TABLE msg_dedup (
    user_id    TEXT COLLATE "C" NOT NULL,
    cmid       TEXT COLLATE "C" NOT NULL,
    mid        TEXT COLLATE "C" NOT NULL,
    conv_id    TEXT COLLATE "C" NOT NULL,
    seq        BIGINT NOT NULL,
    hash       BYTEA  NOT NULL,
    created_at BIGINT NOT NULL,
    seen       BIGINT NOT NULL DEFAULT 1,
    recalled   SMALLINT NOT NULL DEFAULT 0,
    PRIMARY KEY (cmid, user_id)
);

CREATE TABLE device_cursors (
    user_id       TEXT COLLATE "C" NOT NULL,
    device_id     TEXT COLLATE "C" NOT NULL,
    conv_id       TEXT COLLATE "C" NOT NULL,
    install_epoch BIGINT NOT NULL,
    epoch         BIGINT NOT NULL,
    start_seq     BIGINT NOT NULL,
    delivered_seq BIGINT NOT NULL,
    n             BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (user_id, device_id, conv_id)
);

CREATE TABLE read_cursors (
    user_id    TEXT COLLATE "C" NOT NULL,
    conv_id    TEXT COLLATE "C" NOT NULL,
    epoch      BIGINT NOT NULL,
    read_seq   BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, conv_id)
);
