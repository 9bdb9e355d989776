-- Indexes for unresolved failures, without which they take seconds in a file of a million
-- events. Those for summaries have all columns of selectSummary, so that these are read without the
-- table, where each failure lies in another page.
DROP INDEX IF EXISTS "event given up";
DROP INDEX IF EXISTS "replay by watership.fingerprint";
DROP INDEX IF EXISTS "event by watership.replay.of";
DROP INDEX IF EXISTS "event by watership.message";
DELETE FROM sqlite_stat1 WHERE idx IN ('event given up', 'replay by watership.fingerprint');

-- The events of history.GivenUp in the order BySequence. SQLite uses the index only for a
-- query with the same condition, which it checks again.
CREATE INDEX "event given up" ON event ("event.sequence", "event.id", "event.action", "watership.quarantined_action",
	"@timestamp", "watership.fingerprint", "messaging.message.id", "watership.message", "watership.queue", "watership.class", "error.type",
	"watership.error_group", "watership.replay.job", "watership.replay.of", "watership.stream.id", "watership.stream.version", id, "watership.source")
	WHERE "event.action" = 'poisoned' OR "watership.quarantined_action" = 'poisoned';

-- The events of replays by the ends of fingerprints, and by the events that they replay.
CREATE INDEX "replay by watership.fingerprint" ON event (substr("watership.fingerprint", -16),
	"event.sequence", "event.id", "event.action", "watership.quarantined_action",
	"@timestamp", "watership.fingerprint", "messaging.message.id", "watership.message", "watership.queue", "watership.class", "error.type",
	"watership.error_group", "watership.replay.job", "watership.replay.of", "watership.stream.id", "watership.stream.version", id, "watership.source")
	WHERE "watership.replay.of" IS NOT NULL;
CREATE INDEX "event by watership.replay.of" ON event ("watership.replay.of",
	"event.sequence", "event.id", "event.action", "watership.quarantined_action",
	"@timestamp", "watership.fingerprint", "messaging.message.id", "watership.message", "watership.queue", "watership.class", "error.type",
	"watership.error_group", "watership.replay.job", "watership.stream.id", "watership.stream.version", id, "watership.source")
	WHERE "watership.replay.of" IS NOT NULL;

-- The events of a copy of a message, most of which tell nothing about its failure, or are found by what they replay.
CREATE INDEX "event by watership.message" ON event ("watership.message", "event.action", "watership.quarantined_action",
	"event.sequence", "event.id", "watership.replay.of", id, "watership.source", "watership.fingerprint")
	WHERE "watership.message" IS NOT NULL;

-- See schema.sql.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
	('event', 'event given up', '10000 1 1 1 1'),
	('event', 'replay by watership.fingerprint', '10000 3');
