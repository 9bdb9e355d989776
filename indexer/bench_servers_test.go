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
	"strings"
	"testing"
)

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
	case strings.Contains(r.URL.Path, "/_create/"), strings.Contains(r.URL.Path, "/_doc/"): // the watermarks
		fmt.Fprint(w, `{"_seq_no":1,"_primary_term":1}`)
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
