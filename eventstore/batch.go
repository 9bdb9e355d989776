package eventstore

import "time"

// Defaults for a request that writes documents: it is sent when it reaches the first of
// these limits.
const (
	DefaultBatchEvents = 1000
	DefaultBatchBytes  = 5 << 20                // of all documents
	DefaultBatchWait   = 500 * time.Millisecond // after the first event
)
