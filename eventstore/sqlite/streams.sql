-- The streams of messages. Events without one take no space in the index.
ALTER TABLE event ADD COLUMN "watership.stream.id" TEXT;
ALTER TABLE event ADD COLUMN "watership.stream.version" INTEGER;
CREATE INDEX "event by watership.stream.id" ON event ("watership.stream.id", "event.sequence") WHERE "watership.stream.id" IS NOT NULL;

-- See schema.sql.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('event', 'event by watership.stream.id', '1000000 20 1');
