-- The file of the embedded store. Columns have the names of the fields of documents
-- (eventstore/templates/mappings.json), as in a query.

-- The searchable fields with a single value. n is the order of writing and is never
-- reused, so that later events have a higher n.
CREATE TABLE event (
	n                INTEGER PRIMARY KEY AUTOINCREMENT,
	stream           TEXT    NOT NULL, -- traffic or failures
	"event.id"       TEXT    NOT NULL UNIQUE,
	"event.sequence" INTEGER NOT NULL,
	"@timestamp"     INTEGER NOT NULL, -- dates are milliseconds since 1970

	-- keywords, up to 8191 characters; what is longer is not searched
	"event.action" TEXT,
	"event.outcome" TEXT,
	"error.type" TEXT,
	"messaging.system" TEXT,
	"messaging.destination.name" TEXT,
	"messaging.rabbitmq.destination.routing_key" TEXT,
	"messaging.message.id" TEXT,
	"messaging.message.conversation_id" TEXT,
	"messaging.type" TEXT,
	"messaging.content_type" TEXT,
	"messaging.app_id" TEXT,
	"messaging.user_id" TEXT,
	"messaging.reply_to" TEXT,
	"trace.id" TEXT,
	"watership.source" TEXT,
	"watership.vhost" TEXT,
	"watership.fingerprint" TEXT,
	"watership.message" TEXT,
	"watership.parent" TEXT,
	"watership.queue" TEXT,
	"watership.class" TEXT,
	"watership.error_group" TEXT,
	"watership.time_source" TEXT,
	"watership.body_in" TEXT,
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
-- that is the last one. So head and a brace are the document without its body.
CREATE TABLE document (
	n    INTEGER PRIMARY KEY,
	head BLOB NOT NULL,
	body BLOB NOT NULL
);

-- The fields with several values or arbitrary names: headers, body.json, labels and
-- numeric_labels by their keys (keys of nested objects are joined with dots), and the
-- lists of watership.attempts, whose key is empty.
CREATE TABLE key (
	id    INTEGER PRIMARY KEY,
	field TEXT NOT NULL,
	name  TEXT NOT NULL,
	UNIQUE (field, name)
);

CREATE TABLE term (
	key   INTEGER NOT NULL,
	value         NOT NULL, -- a text, a number or a date
	n     INTEGER NOT NULL, -- of the event
	PRIMARY KEY (key, value, n)
) WITHOUT ROWID;

-- The words of texts, joined with spaces; the texts themselves are in the document.
-- analyzer.go splits them as Elasticsearch's standard analyzer does; this tokenizer
-- splits at white space only.
CREATE VIRTUAL TABLE text USING fts5 (
	"error.message", "error.stack_trace", "body.text",
	content = '', contentless_delete = 1,
	tokenize = "ascii tokenchars '!""#$%&()*+,-./:;<=>?@[\]^_`{|}~'''"
);

CREATE VIRTUAL TABLE word USING fts5vocab (text, instance);

-- Replay jobs, as the replayer writes them.
CREATE TABLE job (
	id       TEXT PRIMARY KEY,
	version  INTEGER NOT NULL, -- goes up whenever it is saved
	document BLOB NOT NULL
);

-- The handovers of indexers.
CREATE TABLE handover (
	name     TEXT PRIMARY KEY,
	document BLOB NOT NULL
);

-- The orders of Events, and of Retain.
CREATE INDEX "event newest first" ON event ("@timestamp", "event.sequence");
CREATE INDEX "event by sequence" ON event ("event.sequence", "event.id");
CREATE INDEX "event by age" ON event (stream, "event.sequence");

-- Every field has an index, in which the events with one value are sorted by time. Most
-- events have few of these fields.
CREATE INDEX "event by event.action" ON event ("event.action", "@timestamp", "event.sequence") WHERE "event.action" IS NOT NULL;
CREATE INDEX "event by event.outcome" ON event ("event.outcome", "@timestamp", "event.sequence") WHERE "event.outcome" IS NOT NULL;
CREATE INDEX "event by error.type" ON event ("error.type", "@timestamp", "event.sequence") WHERE "error.type" IS NOT NULL;
CREATE INDEX "event by messaging.system" ON event ("messaging.system", "@timestamp", "event.sequence") WHERE "messaging.system" IS NOT NULL;
CREATE INDEX "event by messaging.destination.name" ON event ("messaging.destination.name", "@timestamp", "event.sequence") WHERE "messaging.destination.name" IS NOT NULL;
CREATE INDEX "event by messaging.rabbitmq.destination.routing_key" ON event ("messaging.rabbitmq.destination.routing_key", "@timestamp", "event.sequence") WHERE "messaging.rabbitmq.destination.routing_key" IS NOT NULL;
CREATE INDEX "event by messaging.message.id" ON event ("messaging.message.id", "@timestamp", "event.sequence") WHERE "messaging.message.id" IS NOT NULL;
CREATE INDEX "event by messaging.message.conversation_id" ON event ("messaging.message.conversation_id", "@timestamp", "event.sequence") WHERE "messaging.message.conversation_id" IS NOT NULL;
CREATE INDEX "event by messaging.type" ON event ("messaging.type", "@timestamp", "event.sequence") WHERE "messaging.type" IS NOT NULL;
CREATE INDEX "event by messaging.content_type" ON event ("messaging.content_type", "@timestamp", "event.sequence") WHERE "messaging.content_type" IS NOT NULL;
CREATE INDEX "event by messaging.app_id" ON event ("messaging.app_id", "@timestamp", "event.sequence") WHERE "messaging.app_id" IS NOT NULL;
CREATE INDEX "event by messaging.user_id" ON event ("messaging.user_id", "@timestamp", "event.sequence") WHERE "messaging.user_id" IS NOT NULL;
CREATE INDEX "event by messaging.reply_to" ON event ("messaging.reply_to", "@timestamp", "event.sequence") WHERE "messaging.reply_to" IS NOT NULL;
CREATE INDEX "event by trace.id" ON event ("trace.id", "@timestamp", "event.sequence") WHERE "trace.id" IS NOT NULL;
CREATE INDEX "event by watership.source" ON event ("watership.source", "@timestamp", "event.sequence") WHERE "watership.source" IS NOT NULL;
CREATE INDEX "event by watership.vhost" ON event ("watership.vhost", "@timestamp", "event.sequence") WHERE "watership.vhost" IS NOT NULL;
CREATE INDEX "event by watership.fingerprint" ON event ("watership.fingerprint", "@timestamp", "event.sequence") WHERE "watership.fingerprint" IS NOT NULL;
CREATE INDEX "event by watership.message" ON event ("watership.message", "@timestamp", "event.sequence") WHERE "watership.message" IS NOT NULL;
CREATE INDEX "event by watership.parent" ON event ("watership.parent", "@timestamp", "event.sequence") WHERE "watership.parent" IS NOT NULL;
CREATE INDEX "event by watership.queue" ON event ("watership.queue", "@timestamp", "event.sequence") WHERE "watership.queue" IS NOT NULL;
CREATE INDEX "event by watership.class" ON event ("watership.class", "@timestamp", "event.sequence") WHERE "watership.class" IS NOT NULL;
CREATE INDEX "event by watership.error_group" ON event ("watership.error_group", "@timestamp", "event.sequence") WHERE "watership.error_group" IS NOT NULL;
CREATE INDEX "event by watership.time_source" ON event ("watership.time_source", "@timestamp", "event.sequence") WHERE "watership.time_source" IS NOT NULL;
CREATE INDEX "event by watership.body_in" ON event ("watership.body_in", "@timestamp", "event.sequence") WHERE "watership.body_in" IS NOT NULL;
CREATE INDEX "event by watership.quarantined_action" ON event ("watership.quarantined_action", "@timestamp", "event.sequence") WHERE "watership.quarantined_action" IS NOT NULL;
CREATE INDEX "event by watership.replay.job" ON event ("watership.replay.job", "@timestamp", "event.sequence") WHERE "watership.replay.job" IS NOT NULL;
CREATE INDEX "event by watership.replay.of" ON event ("watership.replay.of", "@timestamp", "event.sequence") WHERE "watership.replay.of" IS NOT NULL;
CREATE INDEX "event by event.duration" ON event ("event.duration", "@timestamp", "event.sequence") WHERE "event.duration" IS NOT NULL;
CREATE INDEX "event by messaging.message.body.size" ON event ("messaging.message.body.size", "@timestamp", "event.sequence") WHERE "messaging.message.body.size" IS NOT NULL;
CREATE INDEX "event by watership.version" ON event ("watership.version", "@timestamp", "event.sequence") WHERE "watership.version" IS NOT NULL;
CREATE INDEX "event by watership.attempt" ON event ("watership.attempt", "@timestamp", "event.sequence") WHERE "watership.attempt" IS NOT NULL;
CREATE INDEX "event by watership.delay" ON event ("watership.delay", "@timestamp", "event.sequence") WHERE "watership.delay" IS NOT NULL;
CREATE INDEX "event by event.ingested" ON event ("event.ingested", "@timestamp", "event.sequence") WHERE "event.ingested" IS NOT NULL;
CREATE INDEX "event by watership.first_failed" ON event ("watership.first_failed", "@timestamp", "event.sequence") WHERE "watership.first_failed" IS NOT NULL;

-- Statistics of a large file for the query planner: how many events have the same
-- value, if they are many. They are fixed rather than measured, so that a query has the
-- same plan for a new file and an old one.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
	('event', 'event by event.action', '1000000 200000 2 1'),
	('event', 'event by event.outcome', '1000000 300000 2 1'),
	('event', 'event by messaging.system', '1000000 1000000 2 1'),
	('event', 'event by messaging.destination.name', '1000000 100000 2 1'),
	('event', 'event by messaging.rabbitmq.destination.routing_key', '1000000 20000 2 1'),
	('event', 'event by messaging.type', '1000000 20000 2 1'),
	('event', 'event by messaging.content_type', '1000000 300000 2 1'),
	('event', 'event by messaging.app_id', '1000000 100000 2 1'),
	('event', 'event by messaging.user_id', '1000000 100000 2 1'),
	('event', 'event by messaging.reply_to', '1000000 10000 2 1'),
	('event', 'event by watership.source', '1000000 1000000 2 1'),
	('event', 'event by watership.vhost', '1000000 1000000 2 1'),
	('event', 'event by watership.time_source', '1000000 300000 2 1'),
	('event', 'event by watership.body_in', '1000000 300000 2 1'),
	('event', 'event by watership.quarantined_action', '1000000 1000 2 1'),
	('event', 'event by watership.queue', '1000000 20000 2 1'),
	('event', 'event by watership.class', '1000000 20000 2 1'),
	('event', 'event by error.type', '1000000 2000 2 1'),
	('event', 'event by watership.error_group', '1000000 1000 2 1'),
	('event', 'event by watership.version', '1000000 1000000 2 1'),
	('event', 'event by watership.attempt', '1000000 20000 2 1'),
	('event', 'event by watership.delay', '1000000 10000 2 1'),
	('event', 'event by watership.replay.job', '1000000 1000 2 1'),
	('event', 'event by messaging.message.body.size', '1000000 1000 2 1'),
	('event', 'event newest first', '1000000 2 1'),
	('event', 'event by sequence', '1000000 1 1'),
	('event', 'event by age', '1000000 500000 1'),
	('term', 'term', '20000000 100000 10 1');
