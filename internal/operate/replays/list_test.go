package replays

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/replayer"
)

// A caller who may not read bodies sees neither the program of a job, which may have one, nor what
// its errors quote.
func TestProgramsHaveBodies(t *testing.T) {
	_, sys := newReplays(t)
	save(t, sys, replayer.Job{ID: "a", Query: "*", State: replayer.Done, Transform: `.body.card = "4111"`, Failures: []replayer.Failure{
		{EventID: "e", Cause: replayer.TransformFailed, Reason: `the program failed: cannot add: string ("4111") and number (1)`},
		{EventID: "f", Cause: replayer.ReachedNoQueue, Reason: "no queue is bound"},
	}})
	o := operations{System: sys}
	for _, bodies := range []bool{true, false} {
		ctx := access.NewContext(t.Context(), access.Identity{Name: "ann", Method: access.ByToken, Role: access.Viewer, Bodies: bodies})
		page, err := o.listReplays(ctx, &JobsInput{Limit: 10})
		must(t, err)
		job, err := o.getReplay(ctx, &JobInput{"a"})
		must(t, err)
		for what, got := range map[string]any{"list": page.Body, "job": job.Body} {
			text, err := json.Marshal(got)
			must(t, err)
			if strings.Contains(string(text), "4111") != bodies || !strings.Contains(string(text), "no queue is bound") {
				t.Errorf("%s, may read bodies %v: %s", what, bodies, text)
			}
		}
	}
}

// Each job is on one page, and each job that cannot be read, too: with those that are as new.
func TestPagesOfJobs(t *testing.T) {
	_, sys := newReplays(t)
	store, err := sys.Store(t.Context())
	must(t, err)
	for _, id := range []string{"a", "c", "e", "f"} {
		save(t, sys, replayer.Job{ID: id, Query: "*"})
	}
	for _, id := range []string{"b", "d", "g"} { // as an array, of which nothing is known
		_, err := store.CreateJob(t.Context(), id, []byte(`["no job"]`))
		must(t, err)
	}
	o := operations{System: sys}
	for _, test := range []struct {
		limit      int
		jobs       [][]string
		unreadable []int
	}{
		{10, [][]string{{"f", "e", "c", "a"}}, []int{3}},
		{2, [][]string{{"f", "e"}, {"c", "a"}}, []int{1, 2}},
		{1, [][]string{{"f"}, {"e"}, {"c"}, {"a"}}, []int{1, 0, 1, 1}},
	} {
		cursor := ""
		for n, want := range test.jobs {
			page, err := o.listReplays(caller(t, "ann"), &JobsInput{Limit: test.limit, Cursor: cursor})
			must(t, err)
			var got []string
			for _, job := range page.Body.Jobs {
				got = append(got, job.ID)
			}
			if !slices.Equal(got, want) || len(page.Body.Unreadable) != test.unreadable[n] {
				t.Errorf("page %d of %d: %q with %d others, want %q with %d", n, test.limit, got, len(page.Body.Unreadable), want, test.unreadable[n])
			}
			cursor = page.Body.Cursor
		}
		if cursor != "" {
			t.Errorf("%d: there is another page", test.limit)
		}
	}
}
