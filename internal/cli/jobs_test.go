package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/replayer"
)

// Jobs that cannot be read take no place of others, and each is named once.
func TestJobsListWithUnreadableJobs(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	const n = 230 // more than two pages
	for i := range n {
		document, err := json.Marshal(replayer.Job{ID: fmt.Sprintf("job-%03d", i), State: replayer.Done, Query: "*"})
		if i%50 == 49 {
			document = fmt.Appendf(nil, `["no job %d"]`, i)
		}
		if err == nil {
			_, err = a.CreateJob(t.Context(), fmt.Sprintf("job-%03d", i), document)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const unreadable = n / 50
	s := serveAPI(t, config.Sources{Environ: a.environ[:2]})
	for name, environ := range map[string][]string{"directly": a.environ, "through a server": s.environ(t, access.Token{Name: "ada", Role: access.Viewer})} {
		for limit, want := range map[int]struct{ jobs, unreadable int }{
			0: {n - unreadable, unreadable}, 20: {20, 0}, 30: {30, 0}, 31: {31, 1}, 100: {100, 2}, 1000: {n - unreadable, unreadable},
		} {
			got := call(t.Context(), strings.NewReader(""), environ, "jobs", "list", "-o", "ndjson", "--limit", fmt.Sprint(limit))
			jobs, problems := strings.Count(got.Out, "\n"), strings.Count(got.Err, "cannot be read")
			if jobs != want.jobs || problems != want.unreadable || (got.Code == exitOK) != (problems == 0) {
				t.Errorf("%s, --limit %d: %d jobs, %d problems, exit code %d; want %+v\n%s", name, limit, jobs, problems, got.Code, want, got.Err)
			}
		}
	}
}

// A job of which another number of messages is left is not resumed.
func TestResumeAnExpectedNumber(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	document, err := json.Marshal(replayer.Job{ID: "job-1", State: replayer.Paused, Query: "*", Total: 5, Sent: 2})
	if err == nil {
		_, err = a.CreateJob(t.Context(), "job-1", document)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := call(t.Context(), strings.NewReader(""), a.environ, "jobs", "resume", "job-1", "--yes", "--expect", "2")
	if want := "3 messages match, 2 expected: nothing was changed"; got.Code != exitFailed || !strings.Contains(got.Err, want) || got.Out != "" {
		t.Errorf("%+v, want %q", got, want)
	}
}
