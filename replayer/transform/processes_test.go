package transform_test

import (
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
	p := processes(t)
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
		_, keep, err := p.Apply(t.Context(), program, order())
		var limit *transform.LimitError
		var failed *transform.Error
		if keep || !errors.As(err, &limit) && !errors.As(err, &failed) {
			t.Errorf("%s: kept %v, %v", text, keep, err)
		}
		if _, _, again := p.Apply(t.Context(), program, order()); limit != nil && !errors.Is(again, limit) {
			t.Errorf("%s: it runs again: %v", text, again)
		}
		if changed, keep, err := p.Apply(t.Context(), parse(t, `.routing_key = "next"`), order()); err != nil || !keep || changed.RoutingKey != "next" {
			t.Errorf("after %s: %v, %v", text, changed, err)
		}
	}
	_, _, err := p.Apply(t.Context(), parse(t, `null | .[536870911] = 1 | {}`), order())
	if err == nil || !strings.Contains(err.Error(), "needs more than 512 MiB of memory") {
		t.Errorf("%v", err)
	}
}

// Programs of several replays share the processes, and get the results of their own messages.
func TestProcessesAreShared(t *testing.T) {
	p := processes(t)
	var all sync.WaitGroup
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		program := parse(t, `.routing_key += "`+key+`"`)
		all.Go(func() {
			for range 100 {
				e := order()
				e.RoutingKey = key
				if changed, keep, err := p.Apply(t.Context(), program, e); err != nil || !keep || changed.RoutingKey != key+key {
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
	p := processes(t)
	gone := errors.New("gone")
	for _, text := range []string{"def f: f; f", `reduce range(29) as $i (0; [.,.]) | . == map(.)`} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
		if _, _, err := p.Apply(ctx, parse(t, text), order()); !errors.Is(err, gone) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestClosedProcesses(t *testing.T) {
	p := transform.NewProcesses()
	if _, _, err := p.Apply(t.Context(), parse(t, "."), schemas.Envelope{}); err != nil {
		t.Fatal(err)
	}
	p.Close()
	p.Close()
	if _, _, err := p.Apply(t.Context(), parse(t, "."), schemas.Envelope{}); err == nil {
		t.Error("a program was applied")
	}
}
