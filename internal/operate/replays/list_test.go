package replays

import (
	"slices"
	"testing"

	"github.com/watershipmq/watership/replayer"
)

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
