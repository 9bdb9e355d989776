package replayer

import "testing"

// A job of a former version keeps its place: with other names of these members it would begin anew.
func TestJobWithFormerNames(t *testing.T) {
	for document, want := range map[string]Job{
		`{"id":"j","seen":7,"uncertain":true}`:         {ID: "j", Scanned: 7, CursorInvalid: true},
		`{"id":"j","scanned":8,"cursor_invalid":true}`: {ID: "j", Scanned: 8, CursorInvalid: true},
		`{"id":"j","scanned":9}`:                       {ID: "j", Scanned: 9},
	} {
		job, err := readJob([]byte(document))
		if err != nil || job.ID != want.ID || job.Scanned != want.Scanned || job.CursorInvalid != want.CursorInvalid {
			t.Errorf("%s: %+v, %v", document, job, err)
		}
	}
}
