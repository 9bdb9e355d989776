package elastic

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/storetest"
)

func TestJobsConform(t *testing.T) {
	t.Parallel() // most of it is waiting
	storetest.RunJobs(t, func(t *testing.T) storetest.Jobs {
		s := open(t, Config{})
		t.Cleanup(func() { removeIndex(t, s.jobs.index) })
		return s
	})
}

func TestHandoversConform(t *testing.T) {
	t.Parallel() // most of it is waiting
	storetest.RunHandovers(t, func(t *testing.T) storetest.Handovers {
		s := open(t, Config{})
		t.Cleanup(func() { removeIndex(t, s.jobs.index) })
		return s
	})
}

func TestRecordsConform(t *testing.T) {
	t.Parallel() // most of it is waiting
	storetest.RunRecords(t, func(t *testing.T) storetest.Records {
		s := open(t, Config{})
		t.Cleanup(func() { removeIndex(t, s.jobs.index); removeIndex(t, s.records.index) })
		return s
	})
}

func TestSubjectsConform(t *testing.T) {
	t.Parallel() // most of it is waiting
	storetest.RunSubjects(t, func(t *testing.T) storetest.Subjects {
		s := open(t, Config{})
		t.Cleanup(func() { removeIndex(t, s.subjects.index) })
		return s
	})
}

// removeIndex works at the end of a test, when its context is done.
func removeIndex(t *testing.T, index string) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, serverURL(t)+"/"+index, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}

// TestJobsAreNoEvents: neither a search in both streams nor in STREAM-* finds jobs.
func TestJobsAreNoEvents(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := installed(t, Config{})
	t.Cleanup(func() { removeIndex(t, s.jobs.index) })
	if _, err := s.CreateJob(t.Context(), "1", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	mustDo(t, "POST", "/"+s.stream+"*/_refresh", "")
	if n, err := s.Count(t.Context(), eventstore.Selection{}); n != 0 || err != nil {
		t.Errorf("counted %d events (%v)", n, err)
	}
	if response := mustDo(t, "GET", "/"+s.stream+"-*/_count", ""); !strings.Contains(response, `"count":0`) {
		t.Errorf("%s-* has %s", s.stream, response)
	}
	if mapping := mustDo(t, "GET", "/"+s.jobs.index+"/_mapping", ""); !strings.Contains(mapping, `"managed_by":"watership"`) {
		t.Errorf("the mapping is %s", mapping)
	}
}

// TestJobsErrors: each error is one line with the failed operation.
func TestJobsErrors(t *testing.T) {
	s := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"error":{"type":"security_exception","reason":"not you"},"status":403}`))
	})
	_, err := s.CreateJob(t.Context(), "1", []byte(`{}`))
	wantLine(t, err, "creating index scripted.jobs", "not you")
	_, err = s.SaveJob(t.Context(), "1", "1.1", []byte(`{}`))
	wantLine(t, err, "saving job 1", "not you")
	_, _, err = s.Job(t.Context(), "1")
	wantLine(t, err, "reading job 1", "not you")
	for _, err := range s.Jobs(t.Context()) {
		wantLine(t, err, "jobs", "not you")
	}
}

func wantLine(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v, want an error of one line", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}
