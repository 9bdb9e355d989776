-- Indexes for unresolved failures, without which they take seconds in a file of a million
-- events.

-- The events of history.GivenUp in the order BySequence. SQLite uses the index only for a
-- query with the same condition, which it checks again: with its columns in the index, it reads
-- no events for that.
CREATE INDEX "event given up" ON event ("event.sequence", "event.id", "event.action", "watership.quarantined_action")
	WHERE "event.action" = 'poisoned' OR "watership.quarantined_action" = 'poisoned';

-- The events of replays by the ends of fingerprints.
CREATE INDEX "replay by watership.fingerprint" ON event (substr("watership.fingerprint", -16)) WHERE "watership.replay.of" IS NOT NULL;

-- See schema.sql.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
	('event', 'event given up', '10000 1 1 1 1'),
	('event', 'replay by watership.fingerprint', '10000 3');
