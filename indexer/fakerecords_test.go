package indexer

import (
	"context"
	"strconv"
	"sync"
)

// fakeRecords are the records of a store in memory.
type fakeRecords struct {
	mu        sync.Mutex // guards the fields below
	documents map[string][]byte
	versions  map[string]int
}

func (r *fakeRecords) Record(_ context.Context, kind, id string) ([]byte, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := kind + ":" + id
	if r.versions[key] == 0 {
		return nil, "", nil
	}
	return r.documents[key], strconv.Itoa(r.versions[key]), nil
}

func (r *fakeRecords) CreateRecord(ctx context.Context, kind, id string, document []byte) (string, error) {
	return r.SaveRecord(ctx, kind, id, "0", document)
}

func (r *fakeRecords) SaveRecord(_ context.Context, kind, id, version string, document []byte) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.versions == nil {
		r.documents, r.versions = map[string][]byte{}, map[string]int{}
	}
	key := kind + ":" + id
	if version != strconv.Itoa(r.versions[key]) {
		return "", nil
	}
	r.documents[key] = document
	r.versions[key]++
	return strconv.Itoa(r.versions[key]), nil
}
