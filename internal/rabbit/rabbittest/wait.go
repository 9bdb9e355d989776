package rabbittest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Timeout is how long a test waits for an event that must happen: far longer than it takes on a machine where
// Elasticsearch and a dozen tests share two busy processors.
const Timeout = 2 * time.Minute

// Receive receives one value. It fails the test if the channel is closed, or after
// Timeout.
func Receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(Timeout)
	defer timer.Stop()
	select {
	case value, ok := <-from:
		if !ok {
			t.Fatal("channel is closed; a value was expected")
		}
		return value
	case <-timer.C:
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

// Eventually waits until the condition is true, or fails the test after Timeout.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !Poll(Timeout, condition) {
		t.Fatalf("never came true: %s", what)
	}
}

// Poll waits until the condition is true, and reports whether it became true within the limit. The longer it has waited,
// the less often it asks, because conditions ask servers, which have little time left when many tests wait.
func Poll(limit time.Duration, condition func() bool) bool {
	for begin := time.Now(); !condition(); {
		waited := time.Since(begin)
		if waited > limit {
			return false
		}
		time.Sleep(min(max(waited/8, 5*time.Millisecond), time.Second))
	}
	return true
}

// NoLeaks fails the test if goroutines of Watership or the AMQP client outlive it.
// Call it first: cleanups run last in, first out. Not for parallel tests.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := goroutineStacks()
	t.Cleanup(func() {
		var left []string
		if !Poll(Timeout, func() bool { left = goroutineStacks(); return len(left) <= len(before) }) {
			t.Errorf("%d goroutines before the test, %d after it:\n%s", len(before), len(left), strings.Join(left, "\n\n"))
		}
	})
}

// WithoutLeaks runs the tests of a package that has parallel ones, where NoLeaks cannot tell whose a goroutine is. It
// returns the exit code, which says failure if goroutines of Watership or the AMQP client outlive the tests.
func WithoutLeaks(run func() int) int {
	if code := run(); code != 0 {
		return code
	}
	var left []string
	if !Poll(Timeout, func() bool { left = goroutineStacks(); return len(left) == 0 }) {
		fmt.Fprintf(os.Stderr, "%d goroutines outlive the tests:\n%s\n", len(left), strings.Join(left, "\n\n"))
		return 1
	}
	return 0
}

// goroutineStacks returns the stacks of goroutines that run code of Watership or the AMQP
// client.
func goroutineStacks() []string {
	buffer := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buffer, true)
		if n < len(buffer) {
			buffer = buffer[:n]
			break
		}
		buffer = make([]byte, 2*len(buffer))
	}
	var stacks []string
	for stack := range strings.SplitSeq(string(buffer), "\n\n") {
		if strings.Contains(stack, "rabbitmq/amqp091-go.") || strings.Contains(stack, "watership/internal/rabbit.") ||
			strings.Contains(stack, "watership/pipeline/transport.") {
			if !strings.Contains(stack, "testing.tRunner") && !strings.Contains(stack, "rabbittest.goroutineStacks") {
				stacks = append(stacks, stack)
			}
		}
	}
	return stacks
}

// Ends waits until a channel such as a context's Done is closed, or fails the test
// after Timeout.
func Ends(t testing.TB, done <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(Timeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatal("did not end")
	}
}
