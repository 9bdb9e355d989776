-- Small documents of the processes that share the store: replay jobs, handovers of indexers,
-- subscriptions.
CREATE TABLE record (
	kind     TEXT NOT NULL,
	id       TEXT NOT NULL,
	version  INTEGER NOT NULL, -- goes up whenever it is saved
	document BLOB NOT NULL,
	PRIMARY KEY (kind, id)
);
