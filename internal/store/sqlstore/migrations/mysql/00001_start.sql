-- +goose NO TRANSACTION
-- +goose Up

-- Ids are bytes, VARBINARY, whatever the character set of the server is: its text is
-- compared without case, or without the spaces at its end. A body and its ext are
-- bytes too. Times are milliseconds since 1970 UTC; flags are 0 or 1, as in the other
-- databases. Every statement ends at once if an earlier attempt has done it: none of
-- them can be rolled back here.

-- One row. incarnation is the history of the database that was accepted last, and
-- judged rises with each acceptance. store is drawn once, and is never another store's. cleaned is 1 once a dedup row has been removed:
-- from then on events decide too.
CREATE TABLE IF NOT EXISTS meta (
    one         SMALLINT       NOT NULL,
    epoch       BIGINT         NOT NULL,
    incarnation VARBINARY(255) NOT NULL,
    judged      BIGINT         NOT NULL DEFAULT 0,
    cleaned     SMALLINT       NOT NULL DEFAULT 0,
    store       VARBINARY(36)  NOT NULL,
    PRIMARY KEY (one)
) ENGINE = InnoDB;

INSERT INTO meta (one, epoch, incarnation, store) VALUES (1, 1, '', UUID()) ON DUPLICATE KEY UPDATE one = 1;

-- Who serves the store: beat rises, and what was committed before a beat that is
-- here is here.
CREATE TABLE IF NOT EXISTS nodes (
    node    VARBINARY(255) NOT NULL,
    name    VARBINARY(512) NOT NULL,
    beat    BIGINT         NOT NULL,
    beat_at BIGINT         NOT NULL,
    PRIMARY KEY (node)
) ENGINE = InnoDB;

-- What each node knew of a change of incarnation. judged is meta's number after the
-- judgement that counted the verdict, 0 until then.
CREATE TABLE IF NOT EXISTS verdicts (
    `change` VARBINARY(255) NOT NULL,
    node     VARBINARY(255) NOT NULL,
    name     VARBINARY(512) NOT NULL,
    checked  BIGINT         NOT NULL,
    missing  BIGINT         NOT NULL,
    lost     BIGINT         NOT NULL,
    epoch    BIGINT         NOT NULL,
    behind   SMALLINT       NOT NULL,
    vouched  SMALLINT       NOT NULL,
    given_at BIGINT         NOT NULL,
    judged   BIGINT         NOT NULL,
    PRIMARY KEY (`change`, node)
) ENGINE = InnoDB;

-- A transaction that writes holds the row of the second in which it began, by number
-- modulo 1024: who looks for what was written sees how far back one may be under way.
CREATE TABLE IF NOT EXISTS gates (
    gate SMALLINT NOT NULL,
    PRIMARY KEY (gate)
) ENGINE = InnoDB;

INSERT INTO gates (gate)
    SELECT a.n + 4 * b.n + 16 * c.n + 64 * d.n + 256 * e.n
    FROM (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS a,
        (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS b,
        (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS c,
        (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS d,
        (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS e
    ON DUPLICATE KEY UPDATE gate = gates.gate;

CREATE TABLE IF NOT EXISTS users (
    user_id  VARBINARY(512) NOT NULL,
    disabled SMALLINT       NOT NULL DEFAULT 0,
    revoked  BIGINT         NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS devices (
    user_id       VARBINARY(512) NOT NULL,
    device_id     VARBINARY(512) NOT NULL,
    install       VARBINARY(512) NOT NULL,
    install_epoch BIGINT         NOT NULL,
    n             BIGINT         NOT NULL,
    session       BIGINT         NOT NULL,
    last_seen     BIGINT         NOT NULL,
    PRIMARY KEY (user_id, device_id),
    KEY devices_by_id (device_id, user_id)
) ENGINE = InnoDB;

-- next_seq is the seq that the next event gets: the log ends at next_seq - 1.
-- updated_at is when the last event was stored, 0 while there is none. It is found by
-- the second: a row that is written again within one needs no new entry.
CREATE TABLE IF NOT EXISTS conversations (
    conv_id         VARBINARY(512) NOT NULL,
    kind            VARBINARY(16)  NOT NULL,
    next_seq        BIGINT         NOT NULL,
    floor           BIGINT         NOT NULL,
    history         VARBINARY(16)  NOT NULL,
    members_version BIGINT         NOT NULL,
    updated_at      BIGINT         NOT NULL,
    updated_second  BIGINT         GENERATED ALWAYS AS (updated_at DIV 1000) STORED,
    PRIMARY KEY (conv_id),
    KEY conversations_by_second (updated_second)
) ENGINE = InnoDB;

-- One row per membership period; both ends are included, an open one has no to_seq.
CREATE TABLE IF NOT EXISTS members (
    conv_id  VARBINARY(512) NOT NULL,
    user_id  VARBINARY(512) NOT NULL,
    role     VARBINARY(16)  NOT NULL,
    from_seq BIGINT         NOT NULL,
    to_seq   BIGINT,
    PRIMARY KEY (conv_id, user_id, from_seq),
    KEY members_by_user (user_id, conv_id)
) ENGINE = InnoDB;

-- subject is the mid of a recall's target, or who joined or left; actor is who did it.
-- Recalls are seen by whoever may see their target, so they are looked for by
-- themselves: there is no index of some rows alone.
CREATE TABLE IF NOT EXISTS events (
    conv_id  VARBINARY(512) NOT NULL,
    seq      BIGINT         NOT NULL,
    kind     VARBINARY(16)  NOT NULL,
    mid      VARBINARY(512) NOT NULL,
    sender   VARBINARY(512) NOT NULL,
    device   VARBINARY(512) NOT NULL,
    cmid     VARBINARY(256) NOT NULL,
    type     VARBINARY(256) NOT NULL,
    body     LONGBLOB       NOT NULL,
    ext      MEDIUMBLOB,
    target   BIGINT,
    recalled SMALLINT       NOT NULL DEFAULT 0,
    at       BIGINT         NOT NULL,
    subject  VARBINARY(512),
    actor    VARBINARY(512),
    PRIMARY KEY (conv_id, seq),
    KEY events_by_kind (conv_id, kind)
) ENGINE = InnoDB;

-- seen counts how often the row was written; recalled rows are kept for ever. hash
-- is the caller's, or 'c' and the store's own hash where the row was made again
-- from an event. The key has cmid first, because cmids that are made in ascending
-- order (UUID v7, a counter) then fall on a few pages, whoever makes them.
CREATE TABLE IF NOT EXISTS msg_dedup (
    user_id    VARBINARY(512) NOT NULL,
    cmid       VARBINARY(256) NOT NULL,
    mid        VARBINARY(512) NOT NULL,
    conv_id    VARBINARY(512) NOT NULL,
    seq        BIGINT         NOT NULL,
    hash       VARBINARY(32)  NOT NULL,
    created_at BIGINT         NOT NULL,
    seen       BIGINT         NOT NULL DEFAULT 1,
    recalled   SMALLINT       NOT NULL DEFAULT 0,
    PRIMARY KEY (cmid, user_id)
) ENGINE = InnoDB;

-- The cursors of a user's devices in a conversation stand side by side.
CREATE TABLE IF NOT EXISTS device_cursors (
    user_id       VARBINARY(512) NOT NULL,
    device_id     VARBINARY(512) NOT NULL,
    conv_id       VARBINARY(512) NOT NULL,
    install_epoch BIGINT         NOT NULL,
    epoch         BIGINT         NOT NULL,
    start_seq     BIGINT         NOT NULL,
    delivered_seq BIGINT         NOT NULL,
    n             BIGINT         NOT NULL,
    updated_at    BIGINT         NOT NULL,
    PRIMARY KEY (user_id, conv_id, device_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS read_cursors (
    user_id    VARBINARY(512) NOT NULL,
    conv_id    VARBINARY(512) NOT NULL,
    epoch      BIGINT         NOT NULL,
    read_seq   BIGINT         NOT NULL,
    updated_at BIGINT         NOT NULL,
    PRIMARY KEY (user_id, conv_id)
) ENGINE = InnoDB;
