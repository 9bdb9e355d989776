package indexer

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// services are the processes of RabbitMQ and Elasticsearch that scripts/services started.
type services map[string]int // by name

func findServices(b *testing.B) services {
	b.Helper()
	found := services{}
	dir := filepath.Join(filepath.Dir(os.Getenv("WATERSHIP_TEST_SERVICES")), "..", ".services")
	for name, file := range map[string]string{"broker": "rabbitmq4.pid", "store": "elasticsearch.pid"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(text), " ")
		if pid, err := strconv.Atoi(strings.TrimSpace(first)); err == nil {
			found[name] = pid
		}
	}
	return found
}

// cpu returns the CPU time of each service with its child processes, and of this process.
func (s services) cpu() map[string]time.Duration {
	used := map[string]time.Duration{"own": ownCPU()}
	parents, times := processes()
	for name, service := range s {
		for pid := range times {
			for ancestor := pid; ancestor > 1; ancestor = parents[ancestor] {
				if ancestor == service {
					used[name] += times[pid]
					break
				}
			}
		}
	}
	return used
}

// processes reads /proc/PID/stat (proc_pid_stat(5)), where a second has 100 ticks.
func processes() (parents map[int]int, times map[int]time.Duration) {
	parents, times = map[int]int{}, map[int]time.Duration{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		name := bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[name+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if len(fields) < 13 {
			continue
		}
		parents[pid], _ = strconv.Atoi(fields[1])
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		times[pid] = time.Duration(user+system) * 10 * time.Millisecond
	}
	return parents, times
}

// startStub starts this test binary again as an Elasticsearch that accepts and discards
// everything. Its CPU time does not count as the indexer's.
func startStub(b *testing.B) string {
	b.Helper()
	stub := exec.Command(os.Args[0], "-test.run=^TestStub$")
	stub.Env = append(os.Environ(), "WATERSHIP_BENCH_STUB=1")
	in, err := stub.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := stub.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := stub.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = stub.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// TestStub is no test: it is the stub, when the benchmark starts it.
func TestStub(t *testing.T) {
	if os.Getenv("WATERSHIP_BENCH_STUB") == "" {
		t.Skip("runs for the benchmark")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(stub)}
	go func() { _ = server.Serve(listener) }()
	fmt.Printf("http://%s\n", listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark ends
	_ = server.Close()
}

func stub(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/_bulk":
		_, _ = w.Write(created(r.Body))
	case strings.Contains(r.URL.Path, "_simulate_index"):
		fmt.Fprint(w, `{"template":{"mappings":{"_meta":{"managed_by":"watership","version":1}}}}`)
	case strings.HasSuffix(r.URL.Path, "_mget"): // of the handover, which is not there
		fmt.Fprint(w, `{"docs":[{"_index":"jobs","_id":"handover","found":false}]}`)
	case strings.HasSuffix(r.URL.Path, "_search"):
		fmt.Fprint(w, `{"hits":{"hits":[]}}`)
	default:
		fmt.Fprint(w, `{}`)
	}
}

// created answers that every document is created.
func created(body io.Reader) []byte {
	request, _ := io.ReadAll(body)
	answer := []byte(`{"items":[`)
	for lines := bytes.Split(request, []byte("\n")); len(lines) > 1; lines = lines[2:] {
		_, id, _ := bytes.Cut(lines[0], []byte(`"_id":`))
		answer = append(append(answer, `{"create":{"_id":`...), bytes.TrimSuffix(id, []byte("}}"))...)
		answer = append(answer, `,"status":201}},`...)
	}
	return append(bytes.TrimSuffix(answer, []byte(",")), "]}"...)
}
