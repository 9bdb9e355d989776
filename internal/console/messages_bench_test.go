package console_test

import (
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"
)

// BenchmarkMessages measures the page of messages on the store of a file, such as the one
// of a million events that the benchmarks of package sqlite make.
func BenchmarkMessages(b *testing.B) {
	file := os.Getenv("WATERSHIP_TEST_SQLITE_FILE")
	if file == "" {
		b.Skip("WATERSHIP_TEST_SQLITE_FILE is not set")
	}
	s := newSystem(b, "WATERSHIP_STORE_URL=sqlite:"+file)
	for name, path := range map[string]string{
		"last day":           "/messages?from=2026-05-14T13%3A46%3A40Z&to=2026-05-16",
		"all":                "/messages?since=all",
		"all, poisoned":      "/messages?since=all&q=action%3A+poisoned",
		"all, of a queue":    "/messages?since=all&q=queue%3A+queue-1",
		"all, of a header":   "/messages?since=all&q=headers.tenant%3A+t1",
		"last day, exchange": "/messages?from=2026-05-14T13%3A46%3A40Z&to=2026-05-16&q=destination.name%3A+shop",
	} {
		b.Run(name, func(b *testing.B) {
			before := cpuTime(b)
			for b.Loop() {
				s.get(b, path).want(b, http.StatusOK, "Replay these")
			}
			b.ReportMetric(float64((cpuTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
