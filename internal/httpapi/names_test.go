package httpapi_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

// Names that people choose may be slashes and dots: they are names in each path, and need the role
// of the operation.
func TestNamesOfSlashes(t *testing.T) {
	t.Parallel()
	r := newRig(t, "sqlite:"+filepath.Join(t.TempDir(), "store.db"))
	viewer := r.as(t, access.Token{Name: "eve", Role: access.Viewer})
	for i, id := range []string{"/", "//", ".", ".."} {
		r.keep(t, r.event(i+1, schemas.Published, func(e *schemas.Event) { e.Envelope.Properties.MessageID = id }))
		if got, _ := r.get(t, "/messages/"+operation.Segment(id))["messages"].([]any); len(got) != 1 {
			t.Errorf("%q: %v", id, got)
		}
		viewer.do(t, http.MethodPost, "/routes/"+operation.Segment(id)+"/pause", "").wantProblem(t, http.StatusForbidden, "")
	}
}

// Ids of events are any text: none of them is the name of an operation.
func TestIDsOfEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, "sqlite:"+filepath.Join(t.TempDir(), "store.db"))
	for i, id := range []string{"count", "export", "histogram", "tail", "validate", "values", ".", "..", "/", "a/b", "a%2Fb", "a&b=c", "?#"} {
		r.keep(t, r.event(i+1, schemas.Published, func(e *schemas.Event) { e.EventID = id }))
		if got := r.get(t, "/event"+query("id", id)); member(got, "event", "id") != id {
			t.Errorf("%q: %v", id, got)
		}
	}
}
