-- Every statement the store runs, each under its name.

-- accept --
-- Store a message once; no row changes for a duplicate.
INSERT INTO inbox (id, channel, message_id, session, rank, message, status, accepted_at)
VALUES (?, ?, ?, ?, ?, ?, 'pending', ?)
ON CONFLICT (channel, message_id) DO NOTHING

-- accepted_id --
-- The inbox id of a message that was accepted before.
SELECT id FROM inbox WHERE channel = ? AND message_id = ?

-- next_row --
-- The first row of a session's next turn, with the epoch that holds the session. The index gives the order.
SELECT lease.epoch, seq, id, message, status, accepted_at, attempts, inbox.turn
FROM inbox LEFT JOIN lease ON lease.session = inbox.session
WHERE inbox.session = ? AND ended_at IS NULL
ORDER BY status DESC, rank, seq
LIMIT 1

-- running_rows --
-- What an earlier life, or a release, left running in a session; `mailbox` puts it in order.
SELECT seq, id, message, status, accepted_at, attempts, turn
FROM inbox
WHERE session = ? AND ended_at IS NULL AND status = 'running'

-- start_turn --
-- Count the attempt of the row that leads a turn.
UPDATE inbox SET status = 'running', turn = id, attempts = attempts + 1 WHERE seq = ?

-- take_lease --
-- Own the session. A lease of an earlier life gives way.
INSERT INTO lease (session, epoch, turn, claimed_at) VALUES (?, ?, ?, ?)
ON CONFLICT (session) DO UPDATE
SET epoch = excluded.epoch, turn = excluded.turn, claimed_at = excluded.claimed_at

-- holds_lease --
-- The fence of everything a turn does to the store.
SELECT 1 FROM lease WHERE session = ? AND epoch = ? AND turn = ?

-- give_lease --
-- The fence, and giving the lease back, in one.
DELETE FROM lease WHERE session = ? AND epoch = ? AND turn = ?

-- steerable --
-- What people said, and sub-sessions brought back, while the turn ran; oldest first.
SELECT seq, id, message, status, accepted_at, attempts, turn
FROM inbox
WHERE session = ? AND ended_at IS NULL AND status = 'pending' AND rank <= 1
ORDER BY seq

-- steer --
UPDATE inbox SET status = 'running', turn = ? WHERE seq = ?

-- end_row --
-- Done or dead; a row that ended before keeps its end.
UPDATE inbox SET status = ?, ended_at = ?, error = ? WHERE id = ? AND ended_at IS NULL

-- return_rows --
-- What a committed turn took but did not answer waits again.
UPDATE inbox SET status = 'pending', turn = ''
WHERE session = ? AND ended_at IS NULL AND status = 'running'

-- uncount --
-- An attempt that was given back on purpose is none.
UPDATE inbox SET attempts = attempts - 1 WHERE id = ? AND attempts > 0

-- cancel --
-- End what waits in a session: pending rows, and an interrupted turn that nobody runs now; or what of it is older.
UPDATE inbox SET status = 'done', ended_at = ?, error = 'cancelled'
WHERE session = ? AND ended_at IS NULL AND (? IS NULL OR seq < ?) AND (
    status = 'pending'
    OR NOT EXISTS (SELECT 1 FROM lease WHERE lease.session = inbox.session AND lease.epoch = ?)
)
RETURNING seq, id

-- editable --
SELECT seq, id, message FROM inbox WHERE channel = ? AND message_id = ? AND status = 'pending'

-- edit --
UPDATE inbox SET message = ? WHERE seq = ?

-- row_of_message --
SELECT seq, id, message, status, accepted_at, attempts, turn FROM inbox WHERE channel = ? AND message_id = ?

-- waiting_sessions --
-- Sessions with rows that this life does not run, the longest waiting first.
SELECT inbox.session
FROM inbox LEFT JOIN lease ON lease.session = inbox.session AND lease.epoch = ?
WHERE ended_at IS NULL AND (status = 'pending' OR lease.epoch IS NULL)
GROUP BY inbox.session
ORDER BY MIN(seq)

-- row --
SELECT seq, id, message, status, accepted_at, attempts, turn FROM inbox WHERE id = ?

-- open_rows --
SELECT seq, id, message, status, accepted_at, attempts, turn
FROM inbox
WHERE session = ? AND ended_at IS NULL
ORDER BY seq

-- depth --
SELECT COUNT(*), MIN(accepted_at) FROM inbox WHERE ended_at IS NULL AND status = 'pending'

-- since --
-- What was accepted since a time, page by page.
SELECT seq, id, message FROM inbox WHERE accepted_at >= ? AND seq > ? ORDER BY seq LIMIT ?

-- prune_inbox --
-- Forget ended rows, and with them their message ids. The newest stays, so that seq never repeats.
DELETE FROM inbox WHERE ended_at < ? AND seq < (SELECT MAX(seq) FROM inbox)

-- reply --
-- Queue a reply once; no row changes where (turn, part) is there.
INSERT INTO outbox (turn, part, channel, chat_id, thread, message, ref, status, created_at, next_at)
VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)
ON CONFLICT (turn, part) DO NOTHING

-- complete_posted --
-- A message that was shown before its turn was committed becomes the reply; the platform's id stays.
UPDATE outbox
SET message = ?, status = 'pending', created_at = ?, next_at = ?,
    ref = CASE WHEN ? = '' THEN ref ELSE ? END
WHERE turn = ? AND part = ? AND status = 'posted'
RETURNING id, ref

-- posted --
-- The newest preview is the one to edit; of a reply that is on its way only a missing id is filled in.
INSERT INTO outbox (turn, part, channel, chat_id, thread, message, ref, status, created_at, next_at)
VALUES (?, ?, ?, ?, ?, ?, ?, 'posted', ?, ?)
ON CONFLICT (turn, part) DO UPDATE SET ref = excluded.ref WHERE status = 'posted' OR ref = ''

-- undelivered --
-- A row that is still 'sending' when this is read was left by a lane that died: its outcome is unknown.
SELECT id, turn, part, message, ref, CASE status WHEN 'sending' THEN 'unknown' ELSE status END,
       attempts, created_at, next_at,
       CASE status WHEN 'sending' THEN 'interrupted while sending' ELSE error END
FROM outbox
WHERE status IN ('pending', 'sending', 'unknown')
ORDER BY id

-- interrupted_sends --
-- Sends that an earlier life began and did not see the end of.
UPDATE outbox SET status = 'unknown', error = 'interrupted while sending'
WHERE status IN ('pending', 'sending', 'unknown') AND status = 'sending' AND epoch <> ?

-- waiting_replies --
SELECT id, turn, part, message, ref, status, attempts, created_at, next_at, error
FROM outbox
WHERE status IN ('pending', 'sending', 'unknown') AND channel = ? AND chat_id = ? AND thread = ?
ORDER BY id

-- delivery --
SELECT id, turn, part, message, ref, status, attempts, created_at, next_at, error FROM outbox WHERE id = ?

-- reply_of --
SELECT id, turn, part, message, ref, status, attempts, created_at, next_at, error FROM outbox WHERE turn = ? AND part = ?

-- deliveries --
-- Newest first; every status where none is named.
SELECT id, turn, part, message, ref, status, attempts, created_at, next_at, error
FROM outbox
WHERE status <> 'dropped' AND (? = '' OR instr(?, ' ' || status || ' '))
ORDER BY id DESC
LIMIT ?

-- sending --
-- Only what is still to be delivered: somebody at a terminal may have dropped it.
UPDATE outbox SET status = 'sending', epoch = ? WHERE id = ? AND status IN ('pending', 'sending', 'unknown')

-- delivered --
UPDATE outbox SET status = 'delivered', error = '', ref = CASE WHEN ? = '' THEN ref ELSE ? END WHERE id = ?

-- failed --
-- To be tried again, or of unknown outcome. What was dropped meanwhile stays dropped.
UPDATE outbox SET status = ?, attempts = attempts + 1, next_at = MAX(next_at, ?), error = ?
WHERE id = ? AND status <> 'dropped'

-- dead --
UPDATE outbox SET status = 'dead', error = ? WHERE id = ? AND status <> 'dropped'

-- resend --
UPDATE outbox SET status = 'pending', attempts = 0, created_at = ?, next_at = ?, error = ''
WHERE id = ? AND status IN ('dead', 'unknown')

-- drop --
-- Hidden, not removed: neither its id nor its (turn, part) may come back.
UPDATE outbox SET status = 'dropped' WHERE id = ? AND status NOT IN ('delivered', 'dropped')

-- prune_outbox --
-- The newest stays, so that no id is given twice.
DELETE FROM outbox
WHERE status IN ('delivered', 'dropped') AND created_at < ? AND id < (SELECT MAX(id) FROM outbox)

-- prune_posted --
-- Previews whose turn ended without a reply.
DELETE FROM outbox
WHERE status = 'posted' AND created_at < ?
  AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.id = outbox.turn AND ended_at IS NULL)

-- put_pairing --
INSERT INTO pairing (channel, sender, name, chat_id, code, status, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (channel, sender) DO UPDATE
SET name = excluded.name, chat_id = excluded.chat_id, code = excluded.code, status = excluded.status,
    created_at = excluded.created_at, expires_at = excluded.expires_at

-- pairing --
SELECT channel, sender, name, chat_id, code, status, created_at, expires_at
FROM pairing
WHERE channel = ? AND sender = ?

-- pairings --
SELECT channel, sender, name, chat_id, code, status, created_at, expires_at
FROM pairing
WHERE ? IN ('', channel)
ORDER BY created_at, channel, sender

-- delete_pairing --
DELETE FROM pairing WHERE channel = ? AND sender = ?

-- get_key --
SELECT value FROM kv WHERE owner = ? AND key = ?

-- set_key --
INSERT INTO kv (owner, key, value) VALUES (?, ?, ?) ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value

-- delete_key --
DELETE FROM kv WHERE owner = ? AND key = ?

-- keys --
-- substr instead of LIKE: a prefix may hold % and _.
SELECT key, value FROM kv WHERE owner = ? AND substr(key, 1, length(?)) = ? ORDER BY key

-- put_schedule --
INSERT INTO schedule (id, session, address, kind, spec, tz, payload, next_at, last_claimed)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE
SET session = excluded.session, address = excluded.address, kind = excluded.kind, spec = excluded.spec,
    tz = excluded.tz, payload = excluded.payload, next_at = excluded.next_at, last_claimed = excluded.last_claimed

-- due_schedules --
SELECT id, session, address, kind, spec, tz, payload, next_at, last_claimed
FROM schedule
WHERE enabled AND next_at <= ?
ORDER BY next_at, id

-- next_schedule --
SELECT MIN(next_at) FROM schedule WHERE enabled

-- claim_schedule --
-- Only who still finds the moment it knows may claim it.
UPDATE schedule SET last_claimed = ?, next_at = ? WHERE id = ? AND next_at = ?

-- end_schedule --
DELETE FROM schedule WHERE id = ? AND next_at = ?

-- schedules --
SELECT id, session, address, kind, spec, tz, payload, next_at, last_claimed
FROM schedule
WHERE ? IN ('', session)
ORDER BY next_at, id

-- delete_schedule --
DELETE FROM schedule WHERE id = ?
