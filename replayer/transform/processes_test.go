package transform_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

func TestMain(m *testing.M) {
	transform.ServeProcess(signal.Ignore)
	os.Exit(m.Run())
}

func processes(t testing.TB) *transform.Processes {
	p := transform.NewProcesses()
	t.Cleanup(p.Close)
	return p
}

// A program that would use up the memory of a process ends its own one only: with a step that
// needs it at once, and with many that do not return. Then it runs no more, and others do.
func TestMemory(t *testing.T) {
	apply := inProcesses(processes(t))
	for _, text := range []string{
		`null | .[536870911] = 1 | {}`,
		`"x" * 1000000000`,
		`[limit(1000000000; repeat(1))]`,
		`reduce range(40) as $i (0; [.,.]) | flatten`,
		`reduce range(40) as $i ([0]; [.,.]) | tojson`,
		`"x" * 100000 | [range(100000) as $i | . + "\($i)"] | add`,
		`reduce range(30) as $i ("x"; @base64 + .)`,
		`"x" * 100000000 | explode`,
		`def f: [f]; f`,
	} {
		program := parse(t, text)
		_, keep, err := apply(t.Context(), program, order())
		var limit *transform.LimitError
		var failed *transform.Error
		if keep || !errors.As(err, &limit) && !errors.As(err, &failed) {
			t.Errorf("%s: kept %v, %v", text, keep, err)
		}
		if _, _, again := apply(t.Context(), program, order()); limit != nil && !errors.Is(again, limit) {
			t.Errorf("%s: it runs again: %v", text, again)
		}
		if changed, keep, err := apply(t.Context(), parse(t, `.routing_key = "next"`), order()); err != nil || !keep || changed.RoutingKey != "next" {
			t.Errorf("after %s: %v, %v", text, changed, err)
		}
	}
	_, _, err := apply(t.Context(), parse(t, `null | .[536870911] = 1 | {}`), order())
	if err == nil || !strings.Contains(err.Error(), "needs more than 512 MiB of memory") {
		t.Errorf("%v", err)
	}
}

// Programs of several replays share the processes, and get the results of their own messages.
func TestProcessesAreShared(t *testing.T) {
	apply := inProcesses(processes(t))
	var all sync.WaitGroup
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		program := parse(t, `.routing_key += "`+key+`"`)
		all.Go(func() {
			for range 100 {
				e := order()
				e.RoutingKey = key
				if changed, keep, err := apply(t.Context(), program, e); err != nil || !keep || changed.RoutingKey != key+key {
					t.Errorf("%s: %s, %v", key, changed.RoutingKey, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// A program whose replay ends is not waited for, and its process ends.
func TestProcessesEndWithTheContext(t *testing.T) {
	apply := inProcesses(processes(t))
	gone := errors.New("gone")
	for _, text := range []string{"def f: f; f", `reduce range(29) as $i (0; [.,.]) | . == map(.)`} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
		if _, _, err := apply(ctx, parse(t, text), order()); !errors.Is(err, gone) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestClosedProcesses(t *testing.T) {
	p := transform.NewProcesses()
	apply := inProcesses(p)
	if _, _, err := apply(t.Context(), parse(t, "."), schemas.Envelope{}); err != nil {
		t.Fatal(err)
	}
	p.Close()
	p.Close()
	if _, _, err := apply(t.Context(), parse(t, "."), schemas.Envelope{}); err == nil {
		t.Error("a program was applied")
	}
}

// The messages of a page have their own results, in their order, up to the one that exceeds
// a limit.
func TestPages(t *testing.T) {
	p := processes(t)
	messages := keyed("a", "b", "c", "d")
	for text, want := range map[string]string{
		`if .routing_key == "b" then error("no b") elif .routing_key == "c" then empty else .routing_key += "x" end`: "ax !b -c dx",
		`if .routing_key == "c" then null | .[536870911] = 1 else . end`:                                             "a b !c !d",
	} {
		var got []string
		for program := parse(t, text); len(got) < len(messages); {
			for _, r := range p.Apply(t.Context(), program, messages[len(got):]...) {
				switch {
				case r.Err != nil:
					got = append(got, "!"+r.Message.RoutingKey)
				case !r.Keep:
					got = append(got, "-"+r.Message.RoutingKey)
				default:
					got = append(got, r.Message.RoutingKey)
				}
			}
		}
		if have := strings.Join(got, " "); have != want {
			t.Errorf("%s: %s, want %s", text, have, want)
		}
	}
	if results := p.Apply(t.Context(), parse(t, ".")); len(results) != 0 {
		t.Errorf("of no message: %v", results)
	}
}

// A page ends early with messages or results that are large, and with a program that takes long.
func TestPagesEndEarly(t *testing.T) {
	p := processes(t)
	large := keyed("a", "b", "c")
	for i := range large {
		large[i].Body = bytes.Repeat([]byte("x"), 700<<10)
	}
	for name, test := range map[string]struct {
		program  string
		messages []schemas.Envelope
		most     int
	}{
		"large messages": {".", large, 2},
		"large results":  {`.body_text = "x" * 9000000`, keyed("a", "b", "c"), 2},
		"long":           {"def f: f; f", keyed("a", "b"), 1},
	} {
		if n := len(p.Apply(t.Context(), parse(t, test.program), test.messages...)); n < 1 || n > test.most {
			t.Errorf("%s: %d results, want 1 to %d", name, n, test.most)
		}
	}
}

func keyed(keys ...string) (messages []schemas.Envelope) {
	for _, key := range keys {
		messages = append(messages, schemas.Envelope{RoutingKey: key})
	}
	return messages
}
