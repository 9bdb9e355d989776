-- The file of the embedded store. Columns have the names of the fields of documents
-- (eventstore/templates/mappings.json), as in a query.

-- The fields with a single value that events are sorted, counted, joined or summarized
-- by. n is the order of writing and is never reused, so that later events have a higher n.
CREATE TABLE event (
	n                INTEGER PRIMARY KEY AUTOINCREMENT,
	failure          INTEGER NOT NULL, -- 1 in the stream of failures
	stream           TEXT AS (CASE failure WHEN 1 THEN 'failures' ELSE 'traffic' END),
	id               TEXT, -- event.id; NULL if it is the source and the fingerprint
	"event.id"       TEXT AS (coalesce(id, "watership.source" || ':' || "watership.fingerprint")),
	"event.sequence" INTEGER NOT NULL,
	"@timestamp"     INTEGER NOT NULL, -- dates are milliseconds since 1970

	-- keywords, up to 8191 characters; what is longer is not searched
	"event.action" TEXT,
	"error.type" TEXT,
	"messaging.message.id" TEXT,
	"watership.source" TEXT,
	"watership.fingerprint" TEXT,
	"watership.message" TEXT,
	"watership.queue" TEXT,
	"watership.class" TEXT,
	"watership.error_group" TEXT,
	"watership.quarantined_action" TEXT,
	"watership.replay.job" TEXT,
	"watership.replay.of" TEXT,

	-- numbers and dates
	"event.duration" INTEGER,
	"messaging.message.body.size" INTEGER,
	"watership.version" INTEGER,
	"watership.attempt" INTEGER,
	"watership.delay" INTEGER,
	"event.ingested" INTEGER,
	"watership.first_failed" INTEGER,

	-- 1 where there is one; the words of texts are in text, and of the others the
	-- values are in term
	"error.message" INTEGER,
	"error.stack_trace" INTEGER,
	"body.text" INTEGER,
	"headers" INTEGER,
	"body.json" INTEGER
);

-- The exact document: head, then body. The column body begins at the member body, if
-- that is the last one. So head and a brace are the document without its body. Both are
-- compressed, see dictionary.go.
CREATE TABLE document (
	n    INTEGER PRIMARY KEY,
	head BLOB NOT NULL,
	body BLOB NOT NULL
);

-- The dictionaries of the compression. Each is for the documents from its n to the next
-- dictionary.
CREATE TABLE dictionary (
	n       INTEGER PRIMARY KEY,
	content BLOB NOT NULL
);

-- The fields in term and number: keywords, the keys of headers, body.json, labels and
-- numeric_labels (keys of nested objects are joined with dots), and the lists of
-- watership.attempts. The name of a field without keys is empty.
CREATE TABLE key (
	id    INTEGER PRIMARY KEY,
	field TEXT NOT NULL,
	name  TEXT NOT NULL,
	UNIQUE (field, name)
);

-- The values of keywords, each as one word: the id of a key and the value, see token.go.
-- Unlike an ordinary index, this one has each value once, and the numbers of its events
-- as differences.
CREATE VIRTUAL TABLE term USING fts5 (
	value,
	content = '', contentless_delete = 1, detail = none,
	tokenize = "ascii tokenchars '!""#$%&()*+,-./:;<=>?@[\]^_`{|}~'''"
);

-- The words of term, each with its events (doc).
CREATE VIRTUAL TABLE posting USING fts5vocab (term, instance);

-- The words of term, each with the number of its events (doc).
CREATE VIRTUAL TABLE frequency USING fts5vocab (term, row);

-- The values of labels and of lists that are numbers or dates.
CREATE TABLE number (
	key   INTEGER NOT NULL,
	value         NOT NULL,
	n     INTEGER NOT NULL, -- of the event
	PRIMARY KEY (key, value, n)
) WITHOUT ROWID;

CREATE INDEX "number by event" ON number (n);

-- The words of texts, joined with spaces; the texts themselves are in the document.
-- package analyzer splits them as Elasticsearch's standard analyzer does; this tokenizer
-- splits at white space only.
CREATE VIRTUAL TABLE text USING fts5 (
	"error.message", "error.stack_trace", "body.text",
	content = '', contentless_delete = 1,
	tokenize = "ascii tokenchars '!""#$%&()*+,-./:;<=>?@[\]^_`{|}~'''"
);

CREATE VIRTUAL TABLE word USING fts5vocab (text, instance);

-- The orders of Events, and of Retain.
CREATE INDEX "event newest first" ON event ("@timestamp", "event.sequence");
CREATE INDEX "event by sequence" ON event ("event.sequence");
CREATE INDEX "event by age" ON event (failure, "event.sequence");

-- The ends of ids, which are the part that differs.
CREATE INDEX "event by event.id" ON event (substr("event.id", -16));
CREATE INDEX "event by watership.fingerprint" ON event (substr("watership.fingerprint", -16));

-- The fields that events are counted by most.
CREATE INDEX "event by event.action" ON event ("event.action", "@timestamp", "event.sequence") WHERE "event.action" IS NOT NULL;
CREATE INDEX "event by watership.queue" ON event ("watership.queue", "@timestamp", "event.action") WHERE "watership.queue" IS NOT NULL;

-- Most events have none of these fields.
CREATE INDEX "event by error.type" ON event ("error.type", "@timestamp") WHERE "error.type" IS NOT NULL;
CREATE INDEX "event by watership.class" ON event ("watership.class", "@timestamp") WHERE "watership.class" IS NOT NULL;
CREATE INDEX "event by watership.error_group" ON event ("watership.error_group", "@timestamp") WHERE "watership.error_group" IS NOT NULL;
CREATE INDEX "event by watership.quarantined_action" ON event ("watership.quarantined_action") WHERE "watership.quarantined_action" IS NOT NULL;
CREATE INDEX "event by watership.replay.job" ON event ("watership.replay.job", "@timestamp") WHERE "watership.replay.job" IS NOT NULL;
CREATE INDEX "event by watership.delay" ON event ("watership.delay") WHERE "watership.delay" IS NOT NULL;
CREATE INDEX "event by watership.first_failed" ON event ("watership.first_failed") WHERE "watership.first_failed" IS NOT NULL;

-- Statistics of a large file for the query planner: how many events have the same
-- value, if they are many. They are fixed rather than measured, so that a query has the
-- same plan for a new file and an old one.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
	('event', 'event by event.id', '1000000 1'),
	('event', 'event by watership.fingerprint', '1000000 3'),
	('event', 'event by event.action', '1000000 200000 2 1'),
	('event', 'event by watership.quarantined_action', '1000000 1000'),
	('event', 'event by watership.queue', '1000000 20000 2 1'),
	('event', 'event by watership.class', '1000000 20000 2'),
	('event', 'event by error.type', '1000000 2000 2'),
	('event', 'event by watership.error_group', '1000000 1000 2'),
	('event', 'event by watership.delay', '1000000 10000'),
	('event', 'event by watership.replay.job', '1000000 1000 2'),
	('event', 'event newest first', '1000000 2 1'),
	('event', 'event by sequence', '1000000 1'),
	('event', 'event by age', '1000000 500000 1');
