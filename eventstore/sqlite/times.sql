-- The times of work, in nanoseconds.
ALTER TABLE event ADD COLUMN "watership.queue_time" INTEGER;
ALTER TABLE event ADD COLUMN "watership.total_time" INTEGER;
