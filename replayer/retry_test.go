package replayer

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// faults are injected by a proxy between the replayer and Elasticsearch.
type faults struct {
	mu     sync.Mutex
	answer func(*http.Request) int // status of a refused request; 0: none
	lose   func(*http.Request) bool
	done   int
}

func (f *faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done
}

func (f *faults) forRequest(r *http.Request) (status int, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.answer != nil {
		status = f.answer(r)
	}
	if f.lose != nil && status == 0 {
		lost = f.lose(r)
	}
	if status != 0 || lost {
		f.done++
	}
	return status, lost
}

// storeBehindProxy connects the replayer to the store through a proxy.
func (f *fixture) storeBehindProxy() *faults {
	f.t.Helper()
	address := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if address == "" {
		f.t.Skip("WATERSHIP_TEST_STORE_URL is not set")
	}
	backend, err := url.Parse(address)
	if err != nil {
		f.t.Fatal(err)
	}
	faults := &faults{}
	forward := httputil.NewSingleHostReverseProxy(backend)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, lost := faults.forRequest(r)
		switch {
		case status != 0:
			w.WriteHeader(status)
		case lost:
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			forward.ServeHTTP(w, r)
		}
	}))
	f.t.Cleanup(proxy.Close)
	store, err := elastic.Open(elastic.Config{URLs: []string{proxy.URL}, Stream: f.store.(streamStore).stream})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = store.Close() })
	f.cfg.Store, f.Replayer.jobs.store = store, store
	return faults
}

func savesJob(r *http.Request) bool { return strings.Contains(r.URL.Path, ".jobs/_doc/") }

// TestStoreBusyWhileReading: one request in seven is answered with 429 or 500, at the
// start of a read and between pages.
func TestStoreBusyWhileReading(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixtureOn(t, rabbittest.NewestServer(t))
	f.storePublished(5000)
	faults := f.storeBehindProxy()
	created := f.create(f.job(""))
	requests := 0
	faults.set(func() {
		faults.answer = func(r *http.Request) int {
			if requests++; requests%7 != 1 || savesJob(r) {
				return 0
			}
			return []int{http.StatusTooManyRequests, http.StatusInternalServerError}[requests%2]
		}
	})
	wantJob(t, f.resume(created, RunOptions{}), Done, 5000, 0)
	if got := f.broker.Len(t, f.queue); got != 5000 || faults.count() < 3 {
		t.Errorf("%d messages arrived, and %d requests failed", got, faults.count())
	}
}

// TestStoreAwayForAWhile: the store is unavailable for longer than the client repeats
// a request.
func TestStoreAwayForAWhile(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixtureOn(t, rabbittest.NewestServer(t))
	f.storePublished(100)
	faults := f.storeBehindProxy()
	created := f.create(f.job(""))
	const requests = 20
	faults.inTurn(func(r *http.Request) bool { return !savesJob(r) }, slices.Repeat([]int{http.StatusServiceUnavailable}, requests)...)
	wantJob(t, f.resume(created, RunOptions{}), Done, 100, 0)
	if got := f.broker.Len(t, f.queue); got != 100 || faults.count() != requests {
		t.Errorf("%d messages arrived, and %d requests failed", got, faults.count())
	}
}

// inTurn answers the matching requests with one status after the other; -1 drops the
// response.
func (f *faults) inTurn(these func(*http.Request) bool, statuses ...int) {
	next := 0
	f.set(func() {
		f.answer = func(r *http.Request) int {
			if !these(r) || next == len(statuses) || statuses[next] < 0 {
				return 0
			}
			next++
			return statuses[next-1]
		}
		f.lose = func(r *http.Request) bool {
			lost := these(r) && next < len(statuses)
			if lost {
				next++
			}
			return lost
		}
	})
}

// TestJobIsSavedAtItsEnd: the last save of a job is repeated if the store refuses it,
// or if its response is lost.
func TestJobIsSavedAtItsEnd(t *testing.T) {
	t.Parallel() // most of it is waiting
	for name, statuses := range map[string][]int{
		"refused": {http.StatusInternalServerError, http.StatusTooManyRequests}, "lost": {-1}, "both": {-1, http.StatusInternalServerError, -1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixtureOn(t, rabbittest.NewestServer(t))
			f.storePublished(10)
			faults := f.storeBehindProxy()
			created := f.create(f.job(""))
			ran := f.resume(created, RunOptions{Progress: func(j Job) {
				if j.Sent == 10 {
					faults.inTurn(savesJob, statuses...)
				}
			}})
			wantJob(t, ran, Done, 10, 0)
			stored, err := f.Job(t.Context(), created.ID)
			if err != nil || faults.count() != len(statuses) {
				t.Errorf("%d requests failed (%v)", faults.count(), err)
			}
			wantJob(t, stored, Done, 10, 0)
		})
	}
}

// TestJobIsCreatedOnce: a job is created once even if the response is lost.
func TestJobIsCreatedOnce(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixtureOn(t, rabbittest.NewestServer(t))
	f.storePublished(3)
	faults := f.storeBehindProxy()
	plan := f.plan(f.job(""))
	faults.inTurn(savesJob, http.StatusTooManyRequests, -1)
	created, err := f.Create(t.Context(), plan)
	if err != nil || faults.count() != 2 {
		t.Errorf("%d requests failed (%v)", faults.count(), err)
	}
	faults.inTurn(savesJob, -1) // the save that enters the runner
	wantJob(t, f.resume(created, RunOptions{}), Done, 3, 0)
	wantJob(t, f.run(f.job("event.sequence < 0")), Done, 0, 0)
	if _, err := f.Create(t.Context(), Plan{Job: Job{ID: created.ID}}); err == nil {
		t.Error("another job got the same id")
	}
}
