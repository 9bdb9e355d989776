package indexer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// fault answers a bulk request in place of Elasticsearch.
type fault func(g *faultProxy, w http.ResponseWriter, r *http.Request)

// wireFaults are faults of the connection, of proxies and of servers.
func wireFaults() map[string]fault {
	return map[string]fault{
		"half a response":           halfAnswer,
		"fewer items than sent":     fewerItems,
		"items of others":           otherItems,
		"a slow trickle":            trickle,
		"reset after the write":     resetAfter,
		"reset before the write":    func(_ *faultProxy, w http.ResponseWriter, _ *http.Request) { reset(w) },
		"413 for more than one":     tooLarge,
		"429 with Retry-After":      answer(http.StatusTooManyRequests, "1"),
		"429":                       answer(http.StatusTooManyRequests, ""),
		"503":                       answer(http.StatusServiceUnavailable, ""),
		"502 of a proxy":            answer(http.StatusBadGateway, ""),
		"401":                       answer(http.StatusUnauthorized, ""),
		"400 for the whole request": refusedAsAWhole,
	}
}

// TestFaults injects a fault into every third request: no message is lost or stored twice.
func TestFaults(t *testing.T) {
	for name, fault := range wireFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newFaultProxy(t)
			s := newSystem(t, rabbittest.Newest(t))
			store := newStoreAt(t, g.URL)
			var requests atomic.Int64
			g.setFault(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1)%3 == 1 {
					fault(g, w, r)
					return
				}
				g.real.ServeHTTP(w, r)
			})
			const count = 300
			run := s.start(store, nil)
			s.publish(s.messages("first", count/2)...)
			s.publish(s.messages("second", count/2)...)
			s.wantEachOnce(s.finish(store, count, run))
			if requests.Load() < 3 {
				t.Errorf("only %d requests", requests.Load())
			}
		})
	}
}

func (s *system) wantEachOnce(events []schemas.Event) {
	s.t.Helper()
	seen := map[string]int{}
	for _, event := range events {
		if seen[event.Envelope.Properties.MessageID]++; seen[event.Envelope.Properties.MessageID] > 1 {
			s.t.Errorf("%s is stored twice", event.Envelope.Properties.MessageID)
		}
		if event.Action != schemas.Published {
			s.t.Errorf("%s is %s: %s", event.Envelope.Properties.MessageID, event.Action, event.Failure.Message)
		}
	}
	s.wantSequencesRising(events)
}

func answer(status int, retryAfter string) fault {
	return func(_ *faultProxy, w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, `{"error":{"type":"tested","reason":"this is a test"}}`)
	}
}

// forward passes a request to the server and returns its answer.
func (g *faultProxy) forward(r *http.Request) *httptest.ResponseRecorder {
	r.Header.Del("Accept-Encoding")
	recorder := httptest.NewRecorder()
	g.real.ServeHTTP(recorder, r)
	return recorder
}

func halfAnswer(g *faultProxy, w http.ResponseWriter, r *http.Request) {
	body := g.forward(r).Body.Bytes()
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = w.Write(body[:len(body)/2])
	panic(http.ErrAbortHandler)
}

// items changes the items of a server's answer.
func (g *faultProxy) items(w http.ResponseWriter, r *http.Request, change func([]json.RawMessage) []json.RawMessage) {
	var body struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(g.forward(r).Body.Bytes(), &body); err != nil {
		panic(err)
	}
	body.Items = change(body.Items)
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	_ = json.NewEncoder(w).Encode(body)
}

func fewerItems(g *faultProxy, w http.ResponseWriter, r *http.Request) {
	g.items(w, r, func(items []json.RawMessage) []json.RawMessage { return items[1:] })
}

func otherItems(g *faultProxy, w http.ResponseWriter, r *http.Request) {
	g.items(w, r, func(items []json.RawMessage) []json.RawMessage {
		items[0] = json.RawMessage(`{"create":{"_id":"another","status":201}}`)
		return items
	})
}

func trickle(g *faultProxy, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	for part := range bytes.SplitAfterSeq(g.forward(r).Body.Bytes(), []byte(",")) {
		_, _ = w.Write(part)
		w.(http.Flusher).Flush()
		time.Sleep(time.Millisecond) // the fault itself, not a wait
	}
}

func resetAfter(g *faultProxy, w http.ResponseWriter, r *http.Request) {
	g.forward(r)
	reset(w)
}

func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

func tooLarge(g *faultProxy, w http.ResponseWriter, r *http.Request) {
	ifMany(g, w, r, answer(http.StatusRequestEntityTooLarge, ""))
}

func refusedAsAWhole(g *faultProxy, w http.ResponseWriter, r *http.Request) {
	ifMany(g, w, r, answer(http.StatusBadRequest, ""))
}

func ifMany(g *faultProxy, w http.ResponseWriter, r *http.Request, fault fault) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		panic(err)
	}
	if bytes.Count(body.Bytes(), []byte("\n")) > 2 {
		fault(g, w, r)
		return
	}
	again := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), &body)
	again.Header = r.Header
	g.real.ServeHTTP(w, again)
}

// TestFaultsOfServers changes the servers themselves while messages come in.
func TestFaultsOfServers(t *testing.T) {
	for name, during := range map[string]func(i *rolloverStore, proxy *rabbittest.Proxy){
		"a rollover": func(i *rolloverStore, _ *rabbittest.Proxy) { i.rollOver() },
		"a write block": func(i *rolloverStore, _ *rabbittest.Proxy) {
			i.block("true")
			i.publish(i.messages("blocked", 50)...)
			rabbittest.Eventually(i.t, "a request is refused", func() bool { return i.log.Count("did not accept every document") > 0 })
			i.block("null")
		},
		"a lost connection to the broker": func(i *rolloverStore, proxy *rabbittest.Proxy) {
			proxy.Cut()
			i.publish(i.messages("cut", 50)...)
			proxy.Mend()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newRolloverStore(t, storeURL(t))
			proxy := i.Proxy(t)
			run := i.startAt(proxy.URL, i.store, nil)
			i.publish(i.messages("before", 100)...)
			i.wait(i.store, 1)
			during(i, proxy)
			i.publish(i.messages("after", 100)...)
			want := 200
			if name != "a rollover" {
				want += 50
			}
			i.wantEachOnce(i.finish(i.store, want, run))
		})
	}
}

func (i *rolloverStore) block(value string) {
	ask(i.t, http.MethodPut, "/"+i.stream+"-*/_settings?expand_wildcards=all&ignore_unavailable=true", `{"index.blocks.write":`+value+`}`)
}

// The deletion of an older index deletes its events, and no other.
func TestAnIndexIsDeleted(t *testing.T) {
	t.Parallel()
	i := newRolloverStore(t, storeURL(t))
	run := i.start(i.store, nil)
	i.publish(i.messages("gone", 100)...)
	i.wait(i.store, 100)
	i.rollOver()
	i.publish(i.messages("early", 100)...)
	i.wait(i.store, 200)
	oldest, _, _ := strings.Cut(ask(t, http.MethodGet, "/_cat/indices/"+i.stream+"-traffic?h=index&s=index", ""), "\n")
	ask(t, http.MethodDelete, "/"+strings.TrimSpace(oldest), "")
	i.publish(i.messages("gone", 100)...) // as their publisher may
	i.wantEachOnce(i.finish(i.store, 200, run))
}

// Without templates a stream would be an ordinary index: the messages wait.
func TestMissingTemplatesAreWaitedFor(t *testing.T) {
	t.Parallel()
	s := newSystem(t, rabbittest.Newest(t))
	store := openStore(t, storeURL(t), streamName())
	run := s.start(store, nil)
	s.publish(s.messages("early", 50)...)
	rabbittest.Eventually(t, "a request fails", func() bool { return s.log.Count("did not accept every document") > 0 })
	if err := store.Install(patient(t)); err != nil {
		t.Fatal(err)
	}
	s.wantEachOnce(s.finish(store, 50, run))
}

// While the store is unavailable the queue holds the messages; they are stored afterwards.
func TestMessagesAreRequeuedWhileTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	g := newFaultProxy(t)
	s := newSystem(t, rabbittest.Newest(t))
	store := newStoreAt(t, g.URL)
	g.setFault(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(503, "")(g, w, r) }))
	run := s.start(store, func(cfg *Config) { cfg.RequeueAfter = 100 * time.Millisecond })
	s.publish(s.messages("order", 100)...)
	rabbittest.Eventually(t, "they are requeued", func() bool { return s.log.Count("requeued the unacknowledged messages") > 1 })
	g.setFault(nil)
	s.wantEachOnce(s.finish(store, 100, run))
}

// A message that is too large for the store moves to a queue and does not delay others.
func TestTooLargeMessagesMoveToAQueue(t *testing.T) {
	const most = 100_000 // bytes of a request
	for name, refuse := range map[string]fault{
		"413": answer(http.StatusRequestEntityTooLarge, ""),
		// Elasticsearch limits the memory of all requests to a tenth of its heap
		// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/index-modules-indexing-pressure.html).
		"429 for the request":   overPressure(most),
		"429 of the shard only": overPressureOfShard(most),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newFaultProxy(t)
			s := newSystem(t, rabbittest.Newest(t))
			store := newStoreAt(t, g.URL)
			g.setFault(func(w http.ResponseWriter, r *http.Request) {
				if r.ContentLength > most {
					refuse(g, w, r)
					return
				}
				g.real.ServeHTTP(w, r)
			})
			large := s.message("large", 0)
			large.Body = []byte(strings.Repeat("x", 2*most))
			s.publish(s.message("before", 0), large, s.message("after", 0))
			s.wantUnstorable(large, s.finish(store, 3, s.start(store, nil)))
		})
	}
}

func (s *system) wantUnstorable(large schemas.Envelope, events []schemas.Event) {
	s.t.Helper()
	var id string
	for _, event := range events {
		if event.Envelope.Properties.MessageID != large.Properties.MessageID {
			continue
		}
		id = event.EventID
		if event.BodyIn != schemas.BodyInUnstorable || event.BodySize != len(large.Body) || len(event.Envelope.Body) != 0 {
			s.t.Errorf("its document says %q, %d bytes", event.BodyIn, event.BodySize)
		}
	}
	arrived := schemas.FromDelivery(s.Take(s.t, s.topology.Unstorable(), 1)[0])
	kept, _, err := wire.Unwrap(arrived)
	if err != nil {
		s.t.Fatal(err)
	}
	if until, is := wire.KeptFor(arrived); !is || until.EventID != id || until.Stream != schemas.Traffic {
		s.t.Errorf("it is kept for %+v, its document is %s", until, id)
	}
	if diff := diff(large, kept); diff != "" {
		s.t.Errorf("it is kept as another message (-want +got):\n%s", diff)
	}
}

// overPressure is Elasticsearch's literal answer.
func overPressure(most int) fault {
	return func(_ *faultProxy, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		reason := fmt.Sprintf("rejected execution of coordinating operation [coordinating_and_primary_bytes=0, replica_bytes=0, "+
			"all_bytes=0, coordinating_operation_bytes=%d, max_coordinating_bytes=%d]", r.ContentLength, most)
		fmt.Fprintf(w, `{"error":{"root_cause":[{"type":"es_rejected_execution_exception","reason":%[1]q}],`+
			`"type":"es_rejected_execution_exception","reason":%[1]q},"status":429}`, reason)
	}
}

// overPressureOfShard is its answer if the node of the shard has less memory.
func overPressureOfShard(most int) fault {
	return func(_ *faultProxy, w http.ResponseWriter, r *http.Request) {
		reason := fmt.Sprintf("rejected execution of primary operation [coordinating_and_primary_bytes=0, replica_bytes=0, "+
			"all_bytes=0, primary_operation_bytes=%d, max_primary_bytes=%d]", r.ContentLength, most)
		var items []string
		for lines := json.NewDecoder(r.Body); ; {
			var action struct {
				Create struct {
					ID string `json:"_id"`
				} `json:"create"`
			}
			var document json.RawMessage
			if lines.Decode(&action) != nil || lines.Decode(&document) != nil {
				break
			}
			items = append(items, fmt.Sprintf(`{"create":{"_id":%q,"status":429,"error":{"type":"es_rejected_execution_exception","reason":%q}}}`,
				action.Create.ID, reason))
		}
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		fmt.Fprintf(w, `{"items":[%s]}`, strings.Join(items, ","))
	}
}

// A store that stays busy receives each message in a request of its own, so that none
// blocks another.
func TestABusyStoreIsAskedForLess(t *testing.T) {
	t.Parallel()
	g := newFaultProxy(t)
	s := newSystem(t, rabbittest.Newest(t))
	store := newStoreAt(t, g.URL)
	g.setFault(func(w http.ResponseWriter, r *http.Request) {
		ifMany(g, w, r, answer(http.StatusTooManyRequests, ""))
	})
	s.publish(s.messages("order", 8)...)
	s.wantEachOnce(s.finish(store, 8, s.start(store, func(cfg *Config) { cfg.Memory = 1 << 30 })))
}
