package servertest

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// Until waits for a condition, and fails long after it should have come true.
func Until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !rabbittest.Poll(rabbittest.Timeout, condition) {
		t.Fatalf("waited in vain for %s", what)
	}
}

// Process is a running serve.
type Process struct {
	Cmd  *exec.Cmd
	Logs *Sink
	done chan error // has how it ended, and is closed
}

// Serve starts the pipeline and waits until it is ready.
func (i *Installation) Serve(t *testing.T) *Process {
	t.Helper()
	p := i.Start(t)
	Until(t, "serve to be ready", func() bool {
		select {
		case err := <-p.done:
			t.Fatalf("serve ended: %v\n%s", err, p.Logs.String())
		default:
		}
		response, err := http.Get("http://" + i.Listen + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return p
}

// Start starts serve.
func (i *Installation) Start(t *testing.T) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(i.Binary, "serve", "--config", i.Config), Logs: &Sink{}, done: make(chan error, 1)}
	p.Cmd.Stderr, p.Cmd.Env = p.Logs, i.Environ
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.done <- p.Cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.Cmd.Process.Kill()
		for range p.done { // until nothing writes to its log
		}
		if t.Failed() {
			t.Logf("log of serve:\n%s", Tail(p.Logs.String(), 8<<10))
		}
	})
	return p
}

// Tail returns the end of a text.
func Tail(text string, size int) string { return text[max(0, len(text)-size):] }

// Stop ends serve as an operator does, and wants it to end well.
func (p *Process) Stop(t *testing.T) {
	t.Helper()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.WantEnd(t)
}

// WantEnd waits until serve, which was told to end, has ended well.
func (p *Process) WantEnd(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			t.Fatalf("serve ended with %v\n%s", err, p.Logs.String())
		}
	case <-time.After(rabbittest.Timeout):
		t.Fatal("serve did not end on SIGTERM")
	}
}

// Kill ends serve as a crash does.
func (p *Process) Kill(t *testing.T) {
	t.Helper()
	if err := p.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
}

// HangUp reloads the configuration of serve and waits for a line of its log.
func (p *Process) HangUp(t *testing.T, line string) {
	t.Helper()
	before := strings.Count(p.Logs.String(), line)
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	Until(t, "serve to log "+line, func() bool { return strings.Count(p.Logs.String(), line) > before })
}

// Ask sends a GET request to serve.
func (i *Installation) Ask(t *testing.T, path string) (status int, body string) {
	t.Helper()
	response, err := http.Get("http://" + i.Listen + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// Scrape returns the samples by name with labels.
func (i *Installation) Scrape(t *testing.T) map[string]float64 {
	t.Helper()
	_, body := i.Ask(t, "/metrics")
	samples := map[string]float64{}
	for line := range strings.Lines(body) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(line, "#") && found {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			samples[name] = number
		}
	}
	return samples
}

// WantAway waits until serve is not ready for a reason, and wants it alive.
func (i *Installation) WantAway(t *testing.T, reason string) {
	t.Helper()
	var body string
	Until(t, "serve not to be ready: "+reason, func() bool {
		var status int
		status, body = i.Ask(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.HasPrefix(body, reason)
	})
	if strings.Count(body, "\n") != 1 {
		t.Errorf("the reason is not one line: %q", body)
	}
	if status, body := i.Ask(t, "/healthz"); status != http.StatusOK {
		t.Errorf("serve is not alive: %s", body)
	}
}

// WantReady waits until serve is ready.
func (i *Installation) WantReady(t *testing.T) {
	t.Helper()
	Until(t, "serve to be ready", func() bool {
		status, body := i.Ask(t, "/readyz")
		return status == http.StatusOK && body == "ok\n"
	})
}

// Sink is written to by a command while a test reads it.
type Sink struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

// Write adds to the text.
func (s *Sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// String returns the text so far.
func (s *Sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
