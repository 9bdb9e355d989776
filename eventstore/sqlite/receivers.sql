-- The receivers of messages. Events without one take no space in the index.
ALTER TABLE event ADD COLUMN "watership.receiver" TEXT;
CREATE INDEX "event by watership.receiver" ON event ("watership.receiver", "event.sequence") WHERE "watership.receiver" IS NOT NULL;

-- See schema.sql.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('event', 'event by watership.receiver', '1000000 200 1');
