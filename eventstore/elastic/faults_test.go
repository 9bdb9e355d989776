package elastic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

func wantStoreError(t *testing.T, err error, kind eventstore.ErrorKind) *eventstore.Error {
	t.Helper()
	var failed *eventstore.Error
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a *eventstore.Error", err)
	}
	if failed.Kind != kind {
		t.Errorf("%v is of kind %d, want %d", err, failed.Kind, kind)
	}
	if text := err.Error(); strings.Contains(text, "\n") || len(text) > maxQuoted+300 {
		t.Errorf("want one short line, got %d bytes: %q", len(text), text)
	}
	return failed
}

func TestErrorKinds(t *testing.T) {
	page := "<html>\n<head><title>502 Bad Gateway</title></head>\n" + strings.Repeat("<p>sorry</p>\n", 500)
	for _, tt := range []struct {
		status int
		header string // Retry-After
		body   string
		kind   eventstore.ErrorKind
		after  time.Duration
		says   string
	}{
		{400, "", `{"error":{"type":"illegal_argument_exception","reason":"Malformed action"},"status":400}`, eventstore.BadRequest, 0, "illegal_argument_exception: Malformed action"},
		{401, "", `{"error":{"type":"security_exception","reason":"unable to authenticate"}}`, eventstore.Unauthorized, 0, "unable to authenticate"},
		{403, "", `{"error":"no handler"}`, eventstore.Unauthorized, 0, "no handler"},
		{404, "", `{"error":{"root_cause":[{"type":"a","reason":"b"}],"type":"c","reason":"d"}}`, eventstore.Unauthorized, 0, "c: d: a: b"},
		{302, "", ``, eventstore.Unauthorized, 0, "302 Found"},
		{413, "", ``, eventstore.RequestTooLarge, 0, "413"},
		{429, "7", `{"error":{"type":"es_rejected_execution_exception","reason":"rejected"}}`, eventstore.Overloaded, 7 * time.Second, "rejected"},
		{429, "soon", ``, eventstore.Overloaded, 0, "429"},
		{429, "", pressure(40, 53687091), eventstore.Overloaded, 0, "rejected execution"},
		{429, "", pressure(62916917, 53687091), eventstore.RequestTooLarge, 0, "rejected execution"},
		{500, "", `[]`, eventstore.Unavailable, 0, "500"},
		{502, "", page, eventstore.Unavailable, 0, "502 Bad Gateway: <html> <head>"},
		{503, "60", `{"error":{"type":"master_not_discovered_exception","reason":null}}`, eventstore.Unavailable, time.Minute, "master_not_discovered_exception"},
	} {
		t.Run(fmt.Sprint(tt.status, tt.header), func(t *testing.T) {
			s := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.header != "" {
					w.Header().Set("Retry-After", tt.header)
				}
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			})
			_, err := s.Create(t.Context(), []schemas.Document{document("a")})
			failed := wantStoreError(t, err, tt.kind)
			if failed.RetryAfter != tt.after {
				t.Errorf("wait %v, want %v", failed.RetryAfter, tt.after)
			}
			if !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "creating 1 documents: ") {
				t.Errorf("%q does not say %q, or not what was being done", err, tt.says)
			}
		})
	}
}

// pressure is the response of an Elasticsearch whose indexing pressure is at its limit.
func pressure(operation, most int) string {
	return fmt.Sprintf(`{"error":{"type":"es_rejected_execution_exception","reason":"rejected execution of coordinating operation `+
		`[coordinating_and_primary_bytes=53687000, replica_bytes=0, all_bytes=53687000, coordinating_operation_bytes=%d, max_coordinating_bytes=%d]"},"status":429}`,
		operation, most)
}

func TestRetryAfterReadsADate(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"Mon, 04 May 2026 03:02:31 GMT": 30 * time.Second,
		"Mon, 04 May 2026 03:02:00 GMT": 0,
		"-3":                            0,
		"":                              0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

// TestIncompleteResponses: responses that look successful, but are not valid.
func TestIncompleteResponses(t *testing.T) {
	good := func(id string) string { return fmt.Sprintf(`{"create":{"_id":%q,"status":201}}`, id) }
	three := good("0") + "," + good("1") + "," + good("2")
	for name, tt := range map[string]struct{ answer, says string }{
		"fewer items":   {`{"items":[` + good("0") + "," + good("1") + `]}`, "answered for 2 of 3 documents"},
		"more items":    {`{"items":[` + three + "," + good("3") + `]}`, "answered for 4 of 3 documents"},
		"no items":      {`{}`, "answered for 0 of 3 documents"},
		"another order": {`{"items":[` + good("0") + "," + good("2") + "," + good("1") + `]}`, `answered for document "2" where "1" was sent`},
		"cut off":       {`{"items":[` + three, "cannot be read"},
		"more behind":   {`{"items":[` + three + `]}}`, "cannot be read"},
		"a page":        {`<html>welcome</html>`, "cannot be read"},
		"nothing":       {``, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.answer) })
			results, err := s.Create(t.Context(), []schemas.Document{document("0"), document("1"), document("2")})
			wantStoreError(t, err, eventstore.Unavailable)
			if results != nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, %q, want %q", results, err, tt.says)
			}
		})
	}
}

func TestItemStatuses(t *testing.T) {
	s := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[
			{"create":{"_id":"0","status":201}},
			{"create":{"_id":"1","status":409,"error":{"type":"version_conflict_engine_exception","reason":"there","index":".ds-x-000001"}}},
			{"create":{"_id":"2","status":400,"error":{"type":"document_parsing_exception","reason":"bad\n date","caused_by":{"type":"x","reason":"year 10000","caused_by":{"type":"y","reason":"bad\n date"}}}}},
			{"create":{"_id":"3","status":429,"error":{"type":"es_rejected_execution_exception","reason":"full"}}},
			{"create":{"_id":"4","status":503,"error":{"type":"unavailable_shards_exception","reason":"no primary"}}},
			{"create":{"_id":"5","status":403,"error":{"type":"cluster_block_exception","reason":"disk full"}}},
			{"create":{"_id":"6","status":404,"error":{"type":"index_not_found_exception","reason":"no such index"}}},
			{"create":{"_id":"7","status":500}}]}`)
	})
	var docs []schemas.Document
	for i := range 8 {
		docs = append(docs, document(fmt.Sprint(i)))
	}
	got, err := s.Create(t.Context(), docs)
	want := []eventstore.Result{
		{Status: eventstore.Created},
		{Status: eventstore.Conflict, Index: ".ds-x-000001"},
		{Status: eventstore.Refused, Reason: "document_parsing_exception: bad date: year 10000"},
		{Status: eventstore.Busy, Reason: "es_rejected_execution_exception: full"},
		{Status: eventstore.Busy, Reason: "unavailable_shards_exception: no primary"},
		{Status: eventstore.Busy, Reason: "cluster_block_exception: disk full"},
		{Status: eventstore.Busy, Reason: "index_not_found_exception: no such index"},
		{Status: eventstore.Busy, Reason: "status 500 without a reason"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

// broken resets the connection.
func broken(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	connection.(*net.TCPConn).SetLinger(0)
	connection.Close()
}

func TestConnectionFaults(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{
		"reset": func(w http.ResponseWriter, _ *http.Request) { broken(w) },
		"half an answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"items":[{"create":{"_id":"a","status":201}}]}`)
		},
		"half an answer in chunks": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"items":[{"create":{"_id":"a","status":201}}]}`)
			http.NewResponseController(w).Flush()
			broken(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted(t, fault)
			_, err := s.Create(t.Context(), []schemas.Document{document("a")})
			wantStoreError(t, err, eventstore.Unavailable)
		})
	}
}

func TestConnectionRefused(t *testing.T) {
	const refuses = "http://127.0.0.1:1" // nothing listens there
	s := open(t, Config{URLs: []string{refuses}})
	_, err := s.Create(t.Context(), []schemas.Document{document("a")})
	wantStoreError(t, err, eventstore.Unavailable)
	if !strings.Contains(err.Error(), refuses) {
		t.Errorf("%q does not say where", err)
	}
	wantStoreError(t, s.Check(t.Context()), eventstore.Unavailable)
}

// TestTrickle: the timeout of the caller's context or of the store ends a slow response.
func TestTrickle(t *testing.T) {
	trickle := func(w http.ResponseWriter, r *http.Request) {
		for {
			fmt.Fprint(w, " ")
			http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := scripted(t, trickle).Create(ctx, []schemas.Document{document("a")})
		wantStoreError(t, err, eventstore.Unavailable)
	})
	t.Run("time limit", func(t *testing.T) {
		s := scripted(t, trickle)
		s.timeout = 50 * time.Millisecond
		_, err := s.Count(t.Context(), eventstore.Selection{})
		wantStoreError(t, err, eventstore.Unavailable)
	})
}

// TestEarlyResponse: a body must not be reused while it is still being sent, which the
// race detector shows.
func TestEarlyResponse(t *testing.T) {
	s := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests) // and nothing is read
	})
	large := document("a")
	large.Source = fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 8<<20))
	for range 20 {
		_, err := s.Create(t.Context(), []schemas.Document{large})
		var failed *eventstore.Error
		if !errors.As(err, &failed) || failed.Kind != eventstore.Overloaded && failed.Kind != eventstore.Unavailable {
			t.Fatalf("got %v", err)
		}
	}
}

// TestRetries: the store does not repeat a bulk request, and repeats a search.
func TestRetries(t *testing.T) {
	var requests atomic.Int32
	s := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"hits":{"total":{"value":3}}}`)
	})
	if n, err := s.Count(t.Context(), eventstore.Selection{}); err != nil || n != 3 || requests.Load() != 2 {
		t.Errorf("counting gave %d, %v after %d requests, want 3 after 2", n, err, requests.Load())
	}
	requests.Store(0)
	_, err := s.Create(t.Context(), []schemas.Document{document("a")})
	wantStoreError(t, err, eventstore.Unavailable)
	if requests.Load() != 1 {
		t.Errorf("a bulk was sent %d times", requests.Load())
	}
}

// TestTruncatedResponse: a search with a truncated response is repeated once.
// A server in other hands, or a proxy, does not take the process's memory by an endless response.
func TestEndlessResponses(t *testing.T) {
	const most = 64 << 20
	for name, ask := range map[string]func(s *Store) error{
		"a search":  func(s *Store) error { _, err := s.Count(t.Context(), eventstore.Selection{}); return err },
		"a request": func(s *Store) error { return s.Refresh(t.Context()) },
	} {
		var sent atomic.Int64
		s := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
			part := bytes.Repeat([]byte(" "), 1<<20)
			for sent.Load() < 10*most {
				n, err := w.Write(part)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
		failed := wantStoreError(t, ask(s), eventstore.Unavailable)
		if !strings.Contains(failed.Error(), "more than 67108864 bytes") || sent.Load() > 2*most {
			t.Errorf("%s: after %d bytes: %v", name, sent.Load(), failed)
		}
	}
}

func TestTruncatedResponse(t *testing.T) {
	for failures, want := range map[int32]int32{1: 2, 9: 2} {
		var requests atomic.Int32
		s := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"hits":{"total":`)
			if http.NewResponseController(w).Flush(); requests.Add(1) <= failures {
				broken(w)
				return
			}
			fmt.Fprint(w, `{"value":3}}}`)
		})
		n, err := s.Count(t.Context(), eventstore.Selection{})
		if requests.Load() != want || (failures == 1) != (err == nil && n == 3) {
			t.Errorf("broken off %d times: %d, %v after %d requests, want %d", failures, n, err, requests.Load(), want)
		}
		if failures > 1 {
			wantStoreError(t, err, eventstore.Unavailable)
		}
	}
}

// TestPartialResponses: a response of some shards only is an error.
func TestPartialResponses(t *testing.T) {
	for _, response := range []string{`{"timed_out":true}`, `{"_shards":{"total":2,"failed":1},"hits":{"total":{"value":3}}}`} {
		s := scripted(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "_search") && r.URL.Query().Get("allow_partial_search_results") != "false" {
				t.Errorf("%s allows partial results", r.URL)
			}
			fmt.Fprint(w, response)
		})
		_, err := s.Count(t.Context(), eventstore.Selection{})
		wantStoreError(t, err, eventstore.Unavailable)
	}
	s := scripted(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"_shards":{"total":2,"failed":1}}`) })
	wantStoreError(t, s.Refresh(t.Context()), eventstore.Unavailable)
}

func TestInvalidSequence(t *testing.T) {
	s := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"docs":[{"_index":"i","_id":"a","error":{"type":"no_shard_available_action_exception","reason":"red"}}]}`)
	})
	_, err := s.Sequences(t.Context(), []eventstore.DocumentID{{Index: "i", ID: "a"}})
	wantStoreError(t, err, eventstore.Unavailable)
}
