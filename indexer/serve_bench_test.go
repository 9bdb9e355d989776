package indexer

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// BenchmarkServe compares `watership serve` with the role index with a minimal drain of
// the queue (see TestDrain), each in a process of its own and from a full queue. They take
// turns. One operation is one turn: run it with -benchtime 1x. WATERSHIP_BENCH_MESSAGES
// says how many messages a turn has (100,000).
func BenchmarkServe(b *testing.B) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("WATERSHIP_BENCH_MESSAGES"), "100000"))
	if err != nil {
		b.Fatal(err)
	}
	binary := buildCommand(b)
	for round := range 3 {
		for _, way := range []struct {
			name  string
			start func(*system) *worker
		}{
			{"a=drain and discard", func(s *system) *worker { return s.startDrain("") }},
			{"b=serve into a stub", func(s *system) *worker { return s.serveIntoStub(binary, "") }},
			{"c=drain into Elasticsearch", func(s *system) *worker { return s.startDrain(storeURL(b)) }},
			{"d=serve without body.json", func(s *system) *worker { return s.serveIntoStore(binary, "index: {body: {json: false}}") }},
			{"e=serve", func(s *system) *worker { return s.serveIntoStore(binary, "") }},
		} {
			b.Run(fmt.Sprintf("%s/round=%d", way.name, round+1), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					s := newSystem(b, rabbittest.NewestServer(b))
					s.load(count)
					w := way.start(s)
					w.report(b, count)
					w.stop()
					if left := s.Len(b, s.topology.Index()); left > 0 {
						b.Errorf("%d messages are left", left)
					}
					b.StartTimer()
				}
			})
		}
	}
}

// buildCommand builds watership, unless WATERSHIP_BENCH_BINARY names another build of it.
func buildCommand(t testing.TB) string {
	t.Helper()
	if binary := os.Getenv("WATERSHIP_BENCH_BINARY"); binary != "" {
		return binary
	}
	path := filepath.Join(t.TempDir(), "watership")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/watership").CombinedOutput()
	if err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	return path
}

// worker is a process that works off the index queue.
type worker struct {
	pid   int
	done  func() int // messages
	stop  func()     // waits for its end
	ended <-chan struct{}
}

// report measures the process from its first messages on: the start of serve does not
// count.
func (w *worker) report(b *testing.B, count int) {
	b.Helper()
	pids := rabbittest.Servers(b)
	pids["own"] = w.pid
	first := w.await(b, 1)
	before, began := rabbittest.CPU(pids), time.Now()
	last := w.await(b, count)
	after, elapsed := rabbittest.CPU(pids), time.Since(began)
	messages := float64(last - first)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(messages/elapsed.Seconds(), "msg/s")
	for name, used := range after {
		b.ReportMetric(float64((used-before[name]).Nanoseconds())/1000/messages, name+"-µs/msg")
	}
	b.ReportMetric(float64(rabbittest.PeakMemory(w.pid))/(1<<20), "peak-MiB")
}

func (w *worker) await(t testing.TB, messages int) (done int) {
	t.Helper()
	for {
		if done = w.done(); done >= messages {
			return done
		}
		select {
		case <-time.After(20 * time.Millisecond): // between two measurements
		case <-w.ended:
			t.Fatalf("the process ended after %d messages", done)
		}
	}
}

// startWorker starts a process that ends with the test at the latest, and when the returned
// worker stops.
func (s *system) startWorker(command *exec.Cmd, done func() int) *worker {
	s.t.Helper()
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait()
	}()
	w := &worker{pid: command.Process.Pid, done: done, ended: ended, stop: func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		<-ended
	}}
	s.t.Cleanup(w.stop)
	return w
}

func (s *system) serveIntoStub(binary, settings string) *worker {
	stub := &countingStub{}
	server := httptest.NewServer(stub)
	s.t.Cleanup(server.Close)
	return s.startWorker(s.serve(binary, server.URL, streamName(), settings), func() int { return int(stub.documents.Load()) })
}

func (s *system) serveIntoStore(binary, settings string) *worker {
	stream := streamName()
	return s.startWorker(s.serve(binary, storeURL(s.t), stream, settings), func() int { return s.indexed(stream) })
}

// serve is a process with the role index alone.
func (s *system) serve(binary, store, stream, settings string) *exec.Cmd {
	s.t.Helper()
	config := filepath.Join(s.t.TempDir(), "watership.yaml")
	text := fmt.Sprintf("roles: [index]\nsource: bench\namqp: {url: %q}\nstore: {url: %q, stream: %s}\n"+
		"topology: {prefix: %s}\ntap: {exchanges: [{name: %s, type: topic}]}\n%s\n", s.URL, store, stream, s.topology.Prefix, s.shop, settings)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	command := exec.Command(binary, "serve", "--config", config)
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "WATERSHIP_") })
	return command
}

// indexed returns the number of documents that Elasticsearch has written to a stream.
func (s *system) indexed(stream string) int {
	var stats struct {
		All struct {
			Primaries struct {
				Indexing struct {
					Total int `json:"index_total"`
				} `json:"indexing"`
			} `json:"primaries"`
		} `json:"_all"`
	}
	answer := ask(s.t, http.MethodGet, "/"+stream+"-traffic*/_stats/indexing?ignore_unavailable=true", "")
	if err := json.Unmarshal([]byte(answer), &stats); err != nil {
		s.t.Fatal(err)
	}
	return stats.All.Primaries.Indexing.Total
}

// startDrain starts this test binary again as a drain, which discards messages if store is
// empty.
func (s *system) startDrain(store string) *worker {
	s.t.Helper()
	job, err := json.Marshal(drainJob{Broker: s.URL, Queue: s.topology.Index(), Store: store, Stream: streamName()})
	if err != nil {
		s.t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "-test.run=^TestDrain$", "-test.timeout=0")
	command.Env = append(os.Environ(), "WATERSHIP_BENCH_DRAIN="+string(job), "WATERSHIP_TEST_MANAGEMENT_URLS=")
	out, err := command.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	var acknowledged atomic.Int64
	go readCounts(out, &acknowledged)
	return s.startWorker(command, func() int { return int(acknowledged.Load()) })
}

// readCounts reads lines with numbers until the end.
func readCounts(lines io.Reader, last *atomic.Int64) {
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		if n, err := strconv.ParseInt(scanner.Text(), 10, 64); err == nil {
			last.Store(n)
		}
	}
}
