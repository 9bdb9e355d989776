-- The stream of an event that is kept for a period of its own, such as traffic@730d; NULL for others.
ALTER TABLE event ADD COLUMN kept_in TEXT;

-- The order of Retain.
DROP INDEX "event by age";
CREATE INDEX "event by age" ON event (failure, kept_in, "event.sequence");
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('event', 'event by age', '1000000 500000 250000 1');
