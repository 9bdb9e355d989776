-- 1 if an event may have several values of the key, as former ones may. The events without any are counted
-- by the values of the others as long as no event has several.
ALTER TABLE key ADD COLUMN multivalued INTEGER NOT NULL DEFAULT 0;
UPDATE key SET multivalued = 1;

-- The numbers of events by time, action and queue, which most lists ask for: of periods of five minutes. The
-- transactions that write and remove events add to them. 0 stands for an event without an action or a queue.
CREATE TABLE tally (
	period INTEGER NOT NULL, -- since 1970
	action NOT NULL,
	queue  NOT NULL,
	events INTEGER NOT NULL,
	PRIMARY KEY (period, action, queue)
) WITHOUT ROWID;
INSERT INTO tally SELECT "@timestamp" / 300000, coalesce("event.action", 0), coalesce("watership.queue", 0), count(*) FROM event GROUP BY 1, 2, 3;
