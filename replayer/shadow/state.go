package shadow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/watershipmq/watership/eventstore"
)

// state is the content of the file of a run.
type state struct {
	Digest string            `json:"digest"` // of the comparison
	UpTo   int64             `json:"up_to"`
	Cursor eventstore.Cursor `json:"cursor"`
	Done   bool              `json:"done"`
	Report Report            `json:"report"`
}

// digest identifies the comparison of a run.
func (r *run) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %g %d %q %q", r.Candidate, r.Query, r.DSL, r.Queues, r.Sample, r.Limit, r.Ignore, r.Causation))
	return hex.EncodeToString(sum[:16])
}

// restore reads the state of an interrupted run, or begins a new one.
func (r *run) restore(ctx context.Context) error {
	text, err := []byte(nil), error(nil)
	if r.State != "" {
		text, err = os.ReadFile(r.State)
	}
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case len(text) == 0:
		r.state = state{Digest: r.digest(), Report: Report{}.clone()}
		if r.state.UpTo, err = r.Store.HighestSequence(ctx); err != nil && r.state.UpTo == 0 {
			return fmt.Errorf("reading the highest sequence: %w", err)
		}
		return r.save()
	}
	if err := json.Unmarshal(text, &r.state); err != nil {
		return fmt.Errorf("the state in %s cannot be read: %w", r.State, err)
	}
	if r.state.Digest != r.digest() {
		return fmt.Errorf("the state in %s is of another comparison: name another file, or delete it", r.State)
	}
	return r.restoreSeen(ctx)
}

// restoreSeen reads which messages the events up to the cursor are about.
func (r *run) restoreSeen(ctx context.Context) error {
	if r.state.Cursor == (eventstore.Cursor{}) || r.state.Done {
		return nil
	}
	for s, err := range r.Store.Summaries(ctx, eventstore.Selection{Query: r.query, UpTo: r.state.Cursor.Sequence}) {
		if err != nil {
			return fmt.Errorf("reading the events up to the checkpoint: %w", err)
		}
		if s.Sequence < r.state.Cursor.Sequence || s.EventID <= r.state.Cursor.EventID {
			r.seen[s.Fingerprint] = true
		}
	}
	return nil
}

// save replaces the file, so that it is whole after a crash.
func (r *run) save() error {
	if r.State == "" {
		return nil
	}
	text, err := json.Marshal(r.state)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(r.State), filepath.Base(r.State)+".*")
	if err != nil {
		return fmt.Errorf("saving the state: %w", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), r.State)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("saving the state: %w", err), os.Remove(file.Name()))
	}
	return nil
}
