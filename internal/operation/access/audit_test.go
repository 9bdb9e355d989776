package access

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
)

// records is a Recorder that keeps records, or fails.
type records struct {
	err error

	mu   sync.Mutex // of list
	list []Record
}

func (r *records) Record(_ context.Context, one Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.list = append(r.list, one)
	}
	return r.err
}

// take returns the records, and forgets them.
func (r *records) take() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

func (r *records) Ready() error { return r.err }

func TestReadBodies(t *testing.T) {
	lost := errors.New("the broker is away")
	for name, test := range map[string]struct {
		identity Identity
		err      error
		status   int
		records  int
	}{
		"a reader":            {Identity{Name: "ada", Role: Viewer, Bodies: true}, nil, 0, 1},
		"an admin without it": {Identity{Name: "ada", Role: Admin}, nil, http.StatusForbidden, 0},
		"no role":             {Identity{Name: "ada", Bodies: true}, nil, http.StatusForbidden, 0},
		"no record":           {Identity{Name: "ada", Role: Viewer, Bodies: true}, lost, http.StatusServiceUnavailable, 0},
	} {
		kept := &records{err: test.err}
		a := &audit{recorder: kept}
		ctx := context.WithValue(NewContext(t.Context(), test.identity), auditKey{}, a)
		err := ReadBodies(ctx, "event.id: 1")
		if (err != nil) != (test.status != 0) || err != nil && statusOf(err) != test.status || len(kept.take()) != test.records {
			t.Errorf("%s: %v", name, err)
		}
		if test.err != nil && !errors.Is(err, test.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ReadBodies(NewContext(t.Context(), Identity{Role: Admin, Bodies: true}), ""); err == nil {
		t.Error("a request that did not pass the handler may read bodies")
	}
}

func TestDescribe(t *testing.T) {
	a := &audit{}
	ctx := context.WithValue(t.Context(), auditKey{}, a)
	Describe(ctx, Action{Name: "replay", Object: "orders"})
	Describe(ctx, Action{Reason: "fixed"})
	if want := (Action{"replay", "orders", "fixed", false}); a.action != want {
		t.Errorf("%+v, want %+v", a.action, want)
	}
	Describe(ctx, Action{Name: "discard", DryRun: true}) // of the page that is shown again
	if want := (Action{"replay", "orders", "fixed", false}); a.action != want {
		t.Errorf("after a dry run: %+v, want %+v", a.action, want)
	}
	Describe(t.Context(), Action{Name: "without a request"})
}

// An action after its dry run in one request is the action.
func TestDescribeAfterADryRun(t *testing.T) {
	a := &audit{}
	ctx := context.WithValue(t.Context(), auditKey{}, a)
	Describe(ctx, Action{Name: "discard", Object: "orders", DryRun: true})
	Describe(ctx, Action{Name: "discard", Reason: "fixed"})
	if want := (Action{"discard", "orders", "fixed", false}); a.action != want {
		t.Errorf("%+v, want %+v", a.action, want)
	}
}
