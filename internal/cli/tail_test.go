package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// Events that become visible in any order are printed once each, and Ctrl-C
// ends it well.
func TestTailLosesAndRepeatsNothing(t *testing.T) { bothWays(t, testTailLosesAndRepeatsNothing) }

func testTailLosesAndRepeatsNothing(t *testing.T, seed seeder) {
	a := seed(t)
	second := func(n int) int { return 1_700_000_000_000_000 + n*1000 } // sequences are microseconds
	made := func(n int) schemas.Event {
		e := a.event(second(n), schemas.Published, anonymous)
		e.Envelope.Properties.MessageID = fmt.Sprintf("m-%04d", n)
		return e
	}
	a.keep(t, made(0), made(1))
	ctx, stop := context.WithCancel(t.Context())
	out, errs := &servertest.Sink{}, &servertest.Sink{}
	done := make(chan int)
	go func() {
		done <- Run(ctx, terminal.Streams{In: strings.NewReader(""), Out: out, Err: errs}, []string{"tail", "message.id: m-*", "-n", "1", "--fields", "message.id"}, a.environ)
	}()
	servertest.Until(t, "tail to begin", func() bool { return strings.Contains(out.String(), "m-0001") })
	const many = 900
	var all []schemas.Event
	for n := range many {
		all = append(all, made(n+2))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for len(all) > 0 { // some of those that are next, in any order
		next := all[:min(len(all), 200)]
		random.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
		some := next[:min(len(next), 1+random.IntN(90))]
		a.keep(t, some...)
		all = all[len(some):]
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
	}
	servertest.Until(t, "every event", func() bool { return strings.Count(out.String(), "m-") >= many+1 })
	for n := range 2 { // between the two it has looked back at everything
		a.keep(t, made(many+2+n))
		last := fmt.Sprintf("m-%04d\n", many+2+n)
		servertest.Until(t, last, func() bool { return strings.Contains(out.String(), last) })
	}
	stop()
	if code := <-done; code != exitOK || errs.String() != "" {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	for n := range many + 3 {
		if times := strings.Count(out.String(), fmt.Sprintf("m-%04d\n", n+1)); times != 1 {
			t.Errorf("m-%04d was printed %d times", n+1, times)
		}
	}
	if strings.Contains(out.String(), "m-0000") {
		t.Error("what was there before was printed")
	}
}

// The names of the columns stand above their values.
func TestTailAlignsItsColumns(t *testing.T) { bothWays(t, testTailAlignsItsColumns) }

func testTailAlignsItsColumns(t *testing.T, seed seeder) {
	a := seed(t)
	a.keep(t, a.event(1, schemas.Published))
	ctx, stop := context.WithCancel(t.Context())
	out := &servertest.Sink{}
	done := make(chan int)
	go func() {
		done <- Run(ctx, terminal.Streams{In: strings.NewReader(""), Out: out, Err: &servertest.Sink{}}, []string{"tail", "-n", "1", "--fields", "@timestamp,action"}, a.environ)
	}()
	servertest.Until(t, "an event", func() bool { return strings.Contains(out.String(), "published") })
	stop()
	<-done
	lines := strings.Split(out.String(), "\n")
	if head, row := strings.Index(lines[0], "event.action"), strings.Index(lines[1], "published"); head < 0 || head != row {
		t.Errorf("the columns are not aligned:\n%s", out)
	}
}
