package cli

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// No message makes show take much memory or time, whatever its body, its headers
// and the number of its events.
func TestShowIsBounded(t *testing.T) { inEitherStore(t, testShowIsBounded) }

func testShowIsBounded(t *testing.T, seed seeder) {
	a := seed(t)
	arrays, elements := 9_990, 400_000 // what the JSON parser takes
	tags := strings.Repeat("<a>", 60_000)
	for n, test := range []struct {
		change func(*schemas.Event)
		want   string
	}{
		{body(strings.Repeat("[", arrays) + strings.Repeat("1,", elements) + "1" + strings.Repeat("]", arrays)), "--raw prints all of it"},
		{body(strings.Repeat(`{"a":`, arrays) + "[" + strings.Repeat("[],", elements) + "1]" + strings.Repeat("}", arrays)), "--raw prints all of it"},
		{body(tags + strings.Repeat("<b/>", 100_000) + strings.ReplaceAll(tags, "<", "</")), "--raw prints all of it"},
		{body("<a " + strings.Repeat(`b="" `, 1_000_000) + "/>"), "--raw prints all of it"},
		{body("<a>" + strings.Repeat(" ", 3<<20) + "</a>"), "--raw prints all of it"},
		{body(strings.Repeat("\u202e\n", 1_000_000)), "--raw prints all of it"},
		{func(e *schemas.Event) { e.Failure.Message = strings.Repeat("\u202e", 1<<20) }, "last failure"},
		{func(e *schemas.Event) {
			inner := any([]any{})
			leaves := make([]any, 8_000)
			for range 30 {
				inner, leaves = amqp.Table{strings.Repeat("k", 250): leaves}, []any{inner}
			}
			e.Envelope.Headers = amqp.Table{"deep": inner}
		}, "body ("},
	} {
		a.keep(t, a.event(n+1, schemas.Poisoned, test.change))
		out, used := a.measured(t, "show", a.event(n+1, schemas.Poisoned).EventID)
		if !strings.Contains(out, test.want) || len(out) > 2<<20 {
			t.Errorf("%d: %d bytes, %q is not in %.200q", n, len(out), test.want, out)
		}
		if used > 200 {
			t.Errorf("%d: show takes %d MiB", n, used)
		}
	}
}

// Equal messages without an id are one to show, however many there were.
func TestShowManyEqualMessages(t *testing.T) {
	inEitherStore(t, func(t *testing.T, seed seeder) { testShowManyEqualMessages(t, seed, 120_000) })
	t.Run("api", func(t *testing.T) { // serve reads as show does
		t.Parallel()
		testShowManyEqualMessages(t, newSeededServer, 1_000)
	})
}

func testShowManyEqualMessages(t *testing.T, seed seeder, size int) {
	a := seed(t)
	var events []schemas.Event
	for n := range history.MaxEvents + 100 {
		events = append(events, a.event(n+1, schemas.Published, sameMessage(1), body(strings.Repeat("x", size))))
	}
	for some := range slices.Chunk(events, 100) {
		a.keep(t, some...)
	}
	out, used := a.measured(t, "show", "m-1")
	if got := strings.Count(out, "published"); got != history.MaxEvents || !strings.Contains(out, "the newest 500 are shown") || !strings.Contains(out, fmt.Sprintf("body (%d bytes)", size)) {
		t.Errorf("%d events are shown", got)
	}
	if used > 50 {
		t.Errorf("show takes %d MiB", used)
	}
}

func body(text string) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Envelope.Body = []byte(text) }
}

// measured runs a command that has to succeed in a process of its own, and says
// how large its heap was when it was collected, in MiB.
func (a seeded) measured(t *testing.T, args ...string) (out string, heap int) {
	t.Helper()
	path, err := servertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -v 8000000; exec "$@"`, "sh", path}, args...)...)
	cmd.Env = append(slices.Clone(a.environ), "GODEBUG=gctrace=1")
	var printed, traced bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &traced
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%.2000s", args, err, traced.String())
	}
	for _, collected := range regexp.MustCompile(`(\d+)->\d+->\d+ MB`).FindAllStringSubmatch(traced.String(), -1) {
		n, _ := strconv.Atoi(collected[1])
		heap = max(heap, n)
	}
	return printed.String(), heap
}
