package indexer

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// TestSoakMemoryIsFlat indexes two million messages of 1 KiB into a stub of Elasticsearch,
// in one process: as they come, and after the store was unavailable. The memory of the
// process does not grow after the first hundred thousand messages, which waited, whatever
// the number of messages and the lag.
func TestSoakMemoryIsFlat(t *testing.T) {
	soak(t)
	s := newSystem(t, rabbittest.Newest(t))
	taken := &countingStub{}
	store := httptest.NewServer(taken)
	defer store.Close()
	m := &memoryUse{system: s, countingStub: taken, process: s.startProcess(processConfig{Broker: s.URL, Store: store.URL, Stream: streamName()})}
	for n := range memoryChunk {
		e := s.benchMessage(n)
		m.chunk = append(m.chunk, rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()})
	}
	first := m.peak("the first 100,000, which waited", func() { m.lagging(100_000) })
	for _, phase := range []struct {
		name string
		work func()
	}{
		{"up to 1,000,000 as they come", func() { m.keepingUp(1_000_000) }},
		{"500,000 that waited", func() { m.lagging(1_500_000) }},
		{"up to 2,000,000 as they come", func() { m.keepingUp(2_000_000) }},
	} {
		if most := m.peak(phase.name, phase.work); most > first+first/4 {
			t.Errorf("%s: its peak is %d MiB, and %d MiB for the first 100,000", phase.name, most>>20, first>>20)
		}
	}
	m.process.stop()
}

// TestMemoryOfServe measures `watership serve` with the role index, from a full queue, with
// messages of 1 KiB and of 1 MiB.
func TestMemoryOfServe(t *testing.T) {
	binary := buildCommand(t)
	for _, test := range []struct {
		name, settings  string
		messages, bytes int
		limit           int // MiB
		soak            bool
	}{
		{"20,000 of 1 KiB", "", 20_000, 1 << 10, 128, false},
		{"500,000 of 1 KiB", "", 500_000, 1 << 10, 128, true},
		{"2,000,000 of 1 KiB", "", 2_000_000, 1 << 10, 128, true},
		{"500 of 1 MiB", "", 500, 1 << 20, 128, true},
		{"200,000 of 1 KiB with 32 MiB", "index: {memory: 32MiB}", 200_000, 1 << 10, 96, true},
		{"500 of 1 MiB with 32 MiB", "index: {memory: 32MiB}", 500, 1 << 20, 96, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.soak {
				soak(t)
			}
			s := newSystem(t, rabbittest.Newest(t))
			for first := 0; first < test.messages; first += 500 {
				var chunk []schemas.Envelope
				for n := range 500 {
					e := s.benchMessage(first + n)
					e.Body = largerBody(e.Body, test.bytes)
					chunk = append(chunk, e)
				}
				s.publish(chunk...)
			}
			w := s.serveIntoStub(binary, test.settings)
			began := time.Now()
			w.await(t, test.messages)
			peak := rabbittest.PeakMemory(w.pid) >> 20
			w.stop()
			t.Logf("at most %d MiB, after %s", peak, time.Since(began).Round(time.Second))
			if peak > test.limit {
				t.Errorf("its peak is %d MiB, want at most %d", peak, test.limit)
			}
		})
	}
}

// largerBody makes a JSON object larger, unless it is large enough.
func largerBody(body []byte, size int) []byte {
	if missing := size - len(body); missing > 0 {
		body = fmt.Appendf(body[:len(body)-1], `,"more":%q}`, bytes.Repeat([]byte("a word "), missing/len("a word ")))
	}
	return body
}

// countingStub is the stub; it counts documents.
type countingStub struct {
	documents   atomic.Int64
	unavailable atomic.Bool
}

func (k *countingStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if k.unavailable.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	recorder := httptest.NewRecorder()
	stub(recorder, r)
	k.documents.Add(int64(bytes.Count(recorder.Body.Bytes(), []byte(`"status":201`))))
	for name, values := range recorder.Header() {
		w.Header()[name] = values
	}
	_, _ = w.Write(recorder.Body.Bytes())
}

type memoryUse struct {
	*system
	*countingStub
	process   *process
	chunk     []rabbit.Message // published again and again
	published int
}

const memoryChunk = 5000 // messages

// keepingUp publishes up to a total, no faster than the messages are indexed.
func (m *memoryUse) keepingUp(upTo int) {
	for m.published < upTo {
		m.publish(m.published + memoryChunk)
		m.await(m.published - 2*memoryChunk)
	}
	m.await(upTo)
}

// lagging publishes up to a total while the store is unavailable.
func (m *memoryUse) lagging(upTo int) {
	m.unavailable.Store(true)
	m.publish(upTo)
	m.unavailable.Store(false)
	m.await(upTo)
}

func (m *memoryUse) publish(upTo int) {
	for m.published < upTo {
		m.send(m.chunk...)
		m.published += len(m.chunk)
	}
}

func (m *memoryUse) await(documents int) {
	for m.documents.Load() < int64(documents) {
		time.Sleep(time.Millisecond)
	}
}

// peak returns the largest resident set of the process while work runs, in bytes.
func (m *memoryUse) peak(what string, work func()) (most int) {
	m.t.Helper()
	done, looked, began := make(chan struct{}), make(chan struct{}), time.Now()
	go func() {
		defer close(looked)
		for {
			most = max(most, m.resident())
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond): // between two measurements
			}
		}
	}()
	work()
	close(done)
	<-looked
	m.t.Logf("%s: at most %d MiB, %d MiB in the end, after %s", what, most>>20, m.resident()>>20, time.Since(began).Round(time.Second))
	return most
}

// resident is the resident set of the process (proc_pid_statm(5)), in bytes.
func (m *memoryUse) resident() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", m.process.pid))
	if err != nil {
		m.t.Errorf("the indexer's process: %v", err)
	}
	var total, resident int
	_, _ = fmt.Sscan(string(text), &total, &resident)
	return resident * os.Getpagesize()
}
