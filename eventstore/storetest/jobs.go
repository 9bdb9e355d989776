package storetest

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
)

// Jobs stores the jobs of the replayer. See the methods of *elastic.Store.
type Jobs interface {
	CreateJob(ctx context.Context, id string, document []byte) (version string, err error)
	SaveJob(ctx context.Context, id, version string, document []byte) (newVersion string, err error)
	Job(ctx context.Context, id string) (document []byte, version string, err error)
	KnownJobs(ctx context.Context, ids []string) (map[string]bool, error)
	Jobs(ctx context.Context) iter.Seq2[[]byte, error]
}

// RunJobs runs the suite of jobs. open returns an empty store, which the test removes.
func RunJobs(t *testing.T, open func(t *testing.T) Jobs) {
	t.Run("without jobs", func(t *testing.T) { testNoJobs(t, open(t)) })
	jobs := open(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, Jobs)
	}{
		{"a job is created once", testJobCreatedOnce},
		{"a job is saved by its version", testJobSaved},
		{"only one of many saves it", testJobContended},
		{"a job of any form", testJobForm},
		{"a context that is done", testJobsContextDone},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, jobs) })
	}
	t.Run("many jobs", func(t *testing.T) { testManyJobs(t, open(t)) })
}

func testNoJobs(t *testing.T, jobs Jobs) {
	wantNoJob(t, jobs, "nobody")
	wantNoJob(t, jobs, "../odd/id?x=1 ")
	for document, err := range jobs.Jobs(t.Context()) {
		t.Errorf("there is a job %s (%v)", document, err)
	}
}

func wantNoJob(t *testing.T, jobs Jobs, id string) {
	t.Helper()
	if document, version, err := jobs.Job(t.Context(), id); document != nil || version != "" || err != nil {
		t.Errorf("job %s: got %s, %q, %v", id, document, version, err)
	}
	if known, err := jobs.KnownJobs(t.Context(), []string{id}); known[id] || err != nil {
		t.Errorf("job %s is known: %v, %v", id, known, err)
	}
}

func testJobCreatedOnce(t *testing.T, jobs Jobs) {
	version := createJob(t, jobs, "once", `{"sent":1}`)
	if _, err := jobs.CreateJob(t.Context(), "once", []byte(`{"sent":2}`)); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("creating it again: %v", err)
	}
	wantJobIs(t, jobs, "once", version, `{"sent":1}`)
	wantNoJob(t, jobs, "twice")
}

func testJobSaved(t *testing.T, jobs Jobs) {
	first := createJob(t, jobs, "saved", `{"sent":1}`)
	second := saveJob(t, jobs, "saved", first, `{"sent":2}`)
	if second == "" || second == first {
		t.Fatalf("saving version %q gave version %q", first, second)
	}
	wantJobIs(t, jobs, "saved", second, `{"sent":2}`)
	if version := saveJob(t, jobs, "saved", first, `{"sent":3}`); version != "" {
		t.Errorf("saving an old version gave %q", version)
	}
	wantJobIs(t, jobs, "saved", second, `{"sent":2}`)
	if _, err := jobs.SaveJob(t.Context(), "saved", "no version", []byte(`{}`)); err == nil {
		t.Error("something that is no version was taken")
	}
}

func testJobContended(t *testing.T, jobs Jobs) {
	version := createJob(t, jobs, "contended", `{}`)
	var work sync.WaitGroup
	won := make(chan string, 10)
	for n := range 10 {
		work.Go(func() {
			given, err := jobs.SaveJob(t.Context(), "contended", version, fmt.Appendf(nil, `{"by":%d}`, n))
			if err != nil {
				t.Error(err)
			}
			if given != "" {
				won <- given
			}
		})
	}
	work.Wait()
	if len(won) != 1 {
		t.Errorf("%d of 10 saved the same version", len(won))
	}
}

// testJobForm: jobs with the same field in different types do not conflict.
func testJobForm(t *testing.T, jobs Jobs) {
	for i, document := range []string{
		`{"query":"a: \"b\"","up_to":9007199254740993}`, `{"query":{"up_to":"text"},"up_to":[1,{"a":null}]}`,
		`{"long":"` + strings.Repeat("x", 100_000) + `"}`,
	} {
		id := fmt.Sprint("form-", i)
		wantJobIs(t, jobs, id, createJob(t, jobs, id, document), document)
	}
}

func testJobsContextDone(t *testing.T, jobs Jobs) {
	version := createJob(t, jobs, "done", `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCanceled(t, map[string]func() error{
		"CreateJob": func() error { _, err := jobs.CreateJob(ctx, "done-2", []byte(`{}`)); return err },
		"SaveJob":   func() error { _, err := jobs.SaveJob(ctx, "done", version, []byte(`{"sent":1}`)); return err },
		"Job":       func() error { _, _, err := jobs.Job(ctx, "done"); return err },
		"KnownJobs": func() error { _, err := jobs.KnownJobs(ctx, []string{"done"}); return err },
		"Jobs": func() (last error) {
			for _, err := range jobs.Jobs(ctx) {
				last = err
			}
			return last
		},
	})
	wantJobIs(t, jobs, "done", version, `{}`)
	wantNoJob(t, jobs, "done-2")
}

func testManyJobs(t *testing.T, jobs Jobs) {
	const many = 230 // more than two pages of any store
	for n := range many {
		createJob(t, jobs, fmt.Sprintf("job-%03d", n), fmt.Sprintf(`{"n":%d}`, n))
	}
	next := many
	for document, err := range jobs.Jobs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if next--; string(document) != fmt.Sprintf(`{"n":%d}`, next) {
			t.Fatalf("got %s where %d belongs", document, next)
		}
	}
	if next != 0 {
		t.Errorf("%d jobs did not come", next)
	}
	for range jobs.Jobs(t.Context()) {
		break
	}
}

func createJob(t *testing.T, jobs Jobs, id, document string) string {
	t.Helper()
	version, err := jobs.CreateJob(t.Context(), id, []byte(document))
	if err != nil || version == "" {
		t.Fatalf("creating job %s gave version %q, %v", id, version, err)
	}
	return version
}

func saveJob(t *testing.T, jobs Jobs, id, version, document string) string {
	t.Helper()
	given, err := jobs.SaveJob(t.Context(), id, version, []byte(document))
	if err != nil {
		t.Fatalf("saving job %s: %v", id, err)
	}
	return given
}

func wantJobIs(t *testing.T, jobs Jobs, id, version, document string) {
	t.Helper()
	got, at, err := jobs.Job(t.Context(), id)
	if err != nil || string(got) != document || at != version {
		t.Errorf("job %s: got %.200s, version %q, %v; want %.200s, version %q", id, got, at, err, document, version)
	}
	if known, err := jobs.KnownJobs(t.Context(), []string{"nobody", id}); !known[id] || known["nobody"] || err != nil {
		t.Errorf("of job %s and nobody's, %v are known, %v", id, known, err)
	}
}
