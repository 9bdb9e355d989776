package eventstore

import (
	"context"
	"encoding/json"
	"fmt"
)

// RecordReader reads small JSON documents that change.
type RecordReader interface {
	// Record returns the last saved document under a kind and an id, and its version,
	// or nil.
	Record(ctx context.Context, kind, id string) (document []byte, version string, err error)
}

// RecordStore saves small JSON documents that change.
type RecordStore interface {
	RecordReader

	// CreateRecord saves a new document and returns its version. It changes nothing and
	// returns "" if there is one.
	CreateRecord(ctx context.Context, kind, id string, document []byte) (version string, err error)

	// SaveRecord replaces a document if its version is still the given one, and returns the
	// new version. Otherwise it changes nothing and returns "".
	SaveRecord(ctx context.Context, kind, id, version string, document []byte) (newVersion string, err error)
}

// ReadRecord decodes a record into value, and returns its version. Without a record it
// returns "", and value stays as it is.
func ReadRecord(ctx context.Context, store RecordReader, kind, id string, value any) (version string, err error) {
	document, version, err := store.Record(ctx, kind, id)
	if err != nil || document == nil {
		return "", err
	}
	if err := json.Unmarshal(document, value); err != nil {
		return "", fmt.Errorf("%s %s cannot be read: %w", kind, id, err)
	}
	return version, nil
}

// SaveRecord replaces the record of a version, as ReadRecord returned it, or creates one if
// the version is "". It returns the new version, which is "" if another process was first:
// then nothing has changed.
func SaveRecord(ctx context.Context, store RecordStore, kind, id, version string, value any) (newVersion string, err error) {
	document, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	if version == "" {
		return store.CreateRecord(ctx, kind, id, document)
	}
	return store.SaveRecord(ctx, kind, id, version, document)
}
