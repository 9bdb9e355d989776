package storetest

import (
	"context"
	"testing"
)

// Handovers stores the handovers of indexers. See the methods of *elastic.Store.
type Handovers interface {
	Jobs
	Handover(ctx context.Context, name string) ([]byte, error)
	SaveHandover(ctx context.Context, name string, document []byte) error
}

// RunHandovers runs the suite of handovers. open returns an empty store, which the test
// removes.
func RunHandovers(t *testing.T, open func(t *testing.T) Handovers) {
	s := open(t)
	wantHandover(t, s, "queue", "")
	saveHandover(t, s, "queue", `{"up_to":1}`)
	wantHandover(t, s, "queue", `{"up_to":1}`)
	wantHandover(t, s, "another", "")
	saveHandover(t, s, "queue", `{"up_to":9007199254740993}`)
	wantHandover(t, s, "queue", `{"up_to":9007199254740993}`)
	createJob(t, s, "queue", `{"sent":1}`)
	saveHandover(t, s, "another", `{"of":"any form"}`)
	wantHandover(t, s, "queue", `{"up_to":9007199254740993}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCanceled(t, map[string]func() error{
		"Handover":     func() error { _, err := s.Handover(ctx, "queue"); return err },
		"SaveHandover": func() error { return s.SaveHandover(ctx, "queue", []byte(`{}`)) },
	})
	wantHandover(t, s, "queue", `{"up_to":9007199254740993}`)
	jobs := 0
	for document, err := range s.Jobs(t.Context()) {
		if jobs++; err != nil || string(document) != `{"sent":1}` {
			t.Errorf("among the jobs is %s (%v)", document, err)
		}
	}
	if jobs != 1 {
		t.Errorf("there are %d jobs", jobs)
	}
}

func saveHandover(t *testing.T, s Handovers, name, document string) {
	t.Helper()
	if err := s.SaveHandover(t.Context(), name, []byte(document)); err != nil {
		t.Fatal(err)
	}
}

func wantHandover(t *testing.T, s Handovers, name, want string) {
	t.Helper()
	got, err := s.Handover(t.Context(), name)
	if string(got) != want || err != nil {
		t.Errorf("handover %s is %s, %v; want %s", name, got, err, want)
	}
}
