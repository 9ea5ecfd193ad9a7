-- The tables of gateway.db, version 1. Times are seconds since 1970, UTC.

CREATE TABLE inbox (
    seq         INTEGER PRIMARY KEY,   -- the order of acceptance
    id          TEXT NOT NULL UNIQUE,
    channel     TEXT NOT NULL,
    message_id  TEXT NOT NULL,         -- the platform's
    session     TEXT NOT NULL,
    rank        INTEGER NOT NULL,      -- 0 what people said, 1 what was brought back, 2 what continues by itself
    message     TEXT NOT NULL,         -- Inbound as JSON
    status      TEXT NOT NULL,         -- pending | running | done | dead
    attempts    INTEGER NOT NULL DEFAULT 0,
    turn        TEXT NOT NULL DEFAULT '',
    accepted_at REAL NOT NULL,
    ended_at    REAL,                  -- set with done and dead
    error       TEXT NOT NULL DEFAULT '',
    UNIQUE (channel, message_id)
);

-- Only what is open is indexed by session, so the index stays as small as the queue.
-- In this order a session's interrupted turn precedes what waits, and people precede the rest.
CREATE INDEX inbox_open ON inbox (session, status DESC, rank, seq) WHERE ended_at IS NULL;

-- Who runs a session. A row of another epoch was left by an earlier life.
CREATE TABLE lease (
    session    TEXT PRIMARY KEY,
    epoch      TEXT NOT NULL,
    turn       TEXT NOT NULL,
    claimed_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE outbox (
    id         INTEGER PRIMARY KEY,
    turn       TEXT NOT NULL,
    part       INTEGER NOT NULL,
    channel    TEXT NOT NULL,
    chat_id    TEXT NOT NULL,
    thread     TEXT NOT NULL,
    message    TEXT NOT NULL,             -- Outbound as JSON
    ref        TEXT NOT NULL DEFAULT '',  -- the platform's message id, once there is one
    status     TEXT NOT NULL,             -- posted | pending | sending | unknown | delivered | dead | dropped
    attempts   INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    next_at    REAL NOT NULL,
    error      TEXT NOT NULL DEFAULT '',
    epoch      TEXT NOT NULL DEFAULT '',  -- which life is sending it
    UNIQUE (turn, part)
);

CREATE INDEX outbox_open ON outbox (id) WHERE status IN ('pending', 'sending', 'unknown');

CREATE TABLE pairing (
    channel    TEXT NOT NULL,
    sender     TEXT NOT NULL,
    name       TEXT NOT NULL,
    chat_id    TEXT NOT NULL,
    code       TEXT NOT NULL,
    status     TEXT NOT NULL,             -- pending | approved
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (channel, sender)
) WITHOUT ROWID;

CREATE TABLE schedule (
    id           TEXT PRIMARY KEY,
    session      TEXT NOT NULL,
    address      TEXT NOT NULL,           -- Address as JSON
    kind         TEXT NOT NULL,
    spec         TEXT NOT NULL,
    tz           TEXT NOT NULL,
    payload      TEXT NOT NULL,
    next_at      REAL,
    last_claimed REAL,
    enabled      INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;

CREATE TABLE kv (
    owner TEXT NOT NULL,
    key   TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (owner, key)
) WITHOUT ROWID;
