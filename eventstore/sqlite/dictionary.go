package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"sync"

	"github.com/watershipmq/watership/eventstore/sqlite/internal/compression"
)

const (
	firstDictionary   = 32      // documents before the first dictionary
	dictionaryGrowth  = 8       // factor of the documents until the next dictionary
	dictionaryMax     = 100_000 // documents of a dictionary
	dictionarySamples = 32      // documents in a dictionary
	maxSampleLength   = 4 << 10 // of a head or a body in it, in bytes
)

// nextDictionary returns the n from which documents need another dictionary than documents of
// n, since messages change.
func nextDictionary(n int64) int64 {
	return max(firstDictionary, min(n*dictionaryGrowth, n+dictionaryMax))
}

// compressor compresses the documents of one dictionary.
type compressor struct {
	*compression.Compressor
	dictionary int64 // its n; 0 for none
}

// compressedBy returns the document compressed by c, or as it is if c is nil or has done so.
func (e parsedDocument) compressedBy(c *compressor) parsedDocument {
	if c != nil && c != e.compressor {
		e.compressor, e.compressed = c, [2][]byte{c.Compress(e.head), c.Compress(e.body)}
	}
	return e
}

// decompressors has the decompressors of the dictionaries that were read last.
type decompressors struct {
	mu     sync.Mutex // guards opened
	opened map[int64]*compression.Decompressor
}

const maxDecompressors = 16

func newDecompressors() *decompressors {
	return &decompressors{opened: map[int64]*compression.Decompressor{}}
}

// decompressor returns sql.ErrNoRows for a document that Retain removes at the same time, with its
// dictionary.
func (d *decompressors) decompressor(ctx context.Context, from queryer, dictionary int64) (*compression.Decompressor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.opened[dictionary]; found != nil {
		return found, nil
	}
	content, err := readDictionary(ctx, from, dictionary)
	if err != nil {
		return nil, err
	}
	opened, err := compression.NewDecompressor(content)
	if err != nil {
		return nil, err
	}
	if len(d.opened) >= maxDecompressors {
		clear(d.opened)
	}
	d.opened[dictionary] = opened
	return opened, nil
}

// readDictionary returns nil for n 0, since the first documents have no dictionary.
func readDictionary(ctx context.Context, from queryer, n int64) (content []byte, err error) {
	if n > 0 {
		err = from.QueryRowContext(ctx, "SELECT content FROM dictionary WHERE n = ?", n).Scan(&content)
	}
	return content, err
}

// newestCompressor returns the compressor of the newest dictionary.
func (c *creator) newestCompressor(ctx context.Context, tx *sql.Tx) (*compressor, error) {
	var newest sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT max(n) FROM dictionary").Scan(&newest); err != nil {
		return nil, err
	}
	if known := c.compressor.Load(); known != nil && known.dictionary == newest.Int64 {
		return known, nil
	}
	content, err := readDictionary(ctx, tx, newest.Int64)
	if err != nil {
		return nil, err
	}
	opened, err := compression.NewCompressor(content)
	if err != nil {
		return nil, err
	}
	found := &compressor{opened, newest.Int64}
	c.compressor.Store(found) // the dictionary is committed: this transaction has not written
	return found, nil
}

// renewDictionary writes a dictionary of the newest documents, for those from n on.
func (w *eventWriter) renewDictionary(ctx context.Context, n int64) error {
	content, err := w.sampleDocuments(ctx)
	if err != nil {
		return err
	}
	if _, err := w.tx.ExecContext(ctx, "INSERT INTO dictionary (n, content) VALUES (?, ?)", n, content); err != nil {
		return err
	}
	opened, err := compression.NewCompressor(content)
	w.compressor = &compressor{opened, n}
	return err
}

// sampleDocuments joins the newest documents, the newest last. Its decoders are its own,
// since this transaction may have written their dictionaries.
func (w *eventWriter) sampleDocuments(ctx context.Context) ([]byte, error) {
	rows, err := w.tx.QueryContext(ctx, "SELECT n FROM document ORDER BY n DESC LIMIT ?", dictionarySamples)
	if err != nil {
		return nil, err
	}
	newest, err := scanNumbers(rows)
	if err != nil {
		return nil, err
	}
	decoders := newDecompressors()
	var content []byte
	for _, n := range slices.Backward(newest) {
		var found storedDocument
		if err := found.read(ctx, decoders, w.tx, w.tx.QueryRowContext(ctx, selectDocument(true), n)); err != nil {
			return nil, err
		}
		content = append(content, found.head[:min(len(found.head), maxSampleLength)]...)
		content = append(content, found.body[:min(len(found.body), maxSampleLength)]...)
	}
	return content, nil
}
