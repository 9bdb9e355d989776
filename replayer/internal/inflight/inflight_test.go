package inflight

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// consumer handles messages after a while, and records what is sent to it.
type consumer struct {
	*Sender[string]
	after    map[string]time.Duration // by message; others at once
	fails    map[string]bool
	sentAt   map[string]time.Time
	sent     []string // in order; those that are left out have a -
	inFlight int
	most     int
	reads    int
}

func newConsumer(cfg Config[string]) *consumer {
	c := &consumer{after: map[string]time.Duration{}, fails: map[string]bool{}, sentAt: map[string]time.Time{}}
	cfg.Send = func(id string, stopped bool) error {
		if stopped {
			c.sent = append(c.sent, "-"+id)
			return nil
		}
		c.sentAt[id] = time.Now()
		c.sent = append(c.sent, id)
		c.inFlight++
		c.most = max(c.most, c.inFlight)
		return nil
	}
	cfg.Outcomes = func(_ context.Context, messages []Message) (map[string]Outcome, error) {
		c.reads++
		found := map[string]Outcome{}
		for _, m := range messages {
			switch at, sent := c.sentAt[m.ID]; {
			case !sent || time.Since(at) < c.after[m.ID]:
				continue
			case c.fails[m.ID]:
				found[m.ID] = Failed
			default:
				found[m.ID] = Handled
			}
			c.inFlight--
		}
		return found, nil
	}
	c.Sender = New(cfg)
	return c
}

// add adds messages, whose streams are their first letters.
func (c *consumer) add(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := c.Add(t.Context(), Message{ID: id, Stream: strings.Trim(id[:1], "_"), Bytes: 1}, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (c *consumer) wantSent(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(c.sent, " "); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

// At most so many messages are in flight, in their order.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(Config[string]{Limit: 3})
		c.after["a2"] = time.Minute
		c.add(t, "a1", "a2", "a3", "a4", "a5", "a6")
		c.wantSent(t, "a1 a2 a3 a4 a5 a6")
		if c.most != 3 {
			t.Errorf("%d were in flight", c.most)
		}
	})
}

// A message of a stream follows when the one before it is handled; other streams go on.
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(Config[string]{Limit: 10, Ordered: true, Stop: true})
		c.after["a1"] = time.Minute
		c.add(t, "a1", "a2", "b1", "_1", "_2", "a3", "c1")
		c.wantSent(t, "a1 b1 _1 _2 c1 a2 a3")
	})
}

// A stream ends at a message that fails, or goes on, as configured.
func TestFailure(t *testing.T) {
	for stop, want := range map[bool]string{true: "a1 b1 -a2 -a3 b2", false: "a1 b1 a2 b2 a3"} {
		synctest.Test(t, func(t *testing.T) {
			c := newConsumer(Config[string]{Limit: 10, Ordered: true, Stop: stop})
			c.fails["a1"] = true
			c.add(t, "a1", "a2", "b1", "a3", "b2")
			c.wantSent(t, want)
			c.sent = nil
			if c.add(t, "a4"); stop {
				c.wantSent(t, "-a4")
			} else {
				c.wantSent(t, "a4")
			}
		})
	}
}

// A message that did not reach its consumer is not waited for, and fails its stream.
func TestUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(Config[string]{Limit: 1, Ordered: true, Stop: true})
		c.after["a1"] = 10 * time.Hour
		go c.Unsent("a1")
		c.add(t, "a1", "a2", "b1")
		c.wantSent(t, "a1 -a2 b1")
	})
}

// Messages of earlier runs are in flight, and streams that have failed stay stopped.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(Config[string]{Limit: 3, Ordered: true, Stop: true})
		for _, id := range []string{"a1", "b1", "c1"} {
			c.Resume(Message{ID: id, Stream: id[:1]})
			c.sentAt[id], c.after[id] = time.Now(), time.Duration(id[0]-'a')*time.Minute
		}
		c.Fail("d")
		c.add(t, "d1", "c2", "b2", "a2")
		c.wantSent(t, "-d1 a2 b2 c2")
	})
}

// Streams look ahead so far only, so that a resumed job finds all messages that were sent.
func TestLookahead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(Config[string]{Limit: 10, Ordered: true, Stop: true})
		c.after["a1"] = time.Minute
		ids := []string{"a1", "a2"}
		for n := range 2 * Lookahead {
			ids = append(ids, fmt.Sprint("_", n))
		}
		c.add(t, ids...)
		if at := slices.Index(c.sent, "a2"); at < Lookahead/2 || at > Lookahead {
			t.Errorf("a2 is sent after %d messages", at)
		}
	})
}

// Without any report the job ends at last.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(Config[string]{Limit: 1})
		c.after["a1"] = 2 * Timeout
		began := time.Now()
		_ = c.Add(t.Context(), Message{ID: "a1"}, "a1")
		err := c.Add(t.Context(), Message{ID: "a2"}, "a2")
		if err == nil || !strings.Contains(err.Error(), "no consumer has reported about any of 1 messages") || time.Since(began) > Timeout+time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if c.reads > int(Timeout/longest)+10 {
			t.Errorf("%d reads", c.reads)
		}
	})
}

// A job that sends a message every two hours waits for the report about each since it was sent.
func TestTimeoutOfASlowJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(Config[string]{Limit: 1})
		send := c.cfg.Send
		c.cfg.Send = func(id string, stopped bool) error {
			time.Sleep(2 * Timeout)
			return send(id, stopped)
		}
		ids := []string{"a1", "a2", "a3"}
		for _, id := range ids {
			c.after[id] = time.Minute
		}
		c.add(t, ids...)
		c.wantSent(t, "a1 a2 a3")
	})
}

func TestAddEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(Config[string]{Limit: 1})
		c.after["a1"] = time.Minute
		ctx, cancel := context.WithCancelCause(t.Context())
		_ = c.Add(ctx, Message{ID: "a1"}, "a1")
		gone := errors.New("gone")
		go cancel(gone)
		if err := c.Add(ctx, Message{ID: "a2"}, "a2"); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
	})
}

// In any order of reports, each message is sent once, one of a stream at a time and in order,
// and never more than the limit.
func TestRandomStreams(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			limit := 1 + random.IntN(8)
			c := newConsumer(Config[string]{Limit: limit, Ordered: true, Stop: random.IntN(2) == 0})
			var ids []string
			for n := range 500 {
				id := fmt.Sprintf("%c%d", "abcdefgh_"[random.IntN(9)], n)
				c.after[id] = time.Duration(random.IntN(2000)) * time.Millisecond
				c.fails[id] = random.IntN(100) == 0
				ids = append(ids, id)
			}
			c.add(t, ids...)
			if len(c.sent) != len(ids) || c.most > limit {
				t.Errorf("%d: %d of %d messages, %d in flight", seed, len(c.sent), len(ids), c.most)
			}
			last := map[byte]string{}
			for _, id := range c.sent {
				id = strings.TrimPrefix(id, "-")
				before, number := 0, 0
				_, _ = fmt.Sscan(id[1:], &number)
				if last[id[0]] != "" {
					_, _ = fmt.Sscan(last[id[0]], &before)
				}
				if id[0] != '_' && number < before {
					t.Errorf("%d: %s after %d", seed, id, before)
				}
				last[id[0]] = id[1:]
			}
		})
	}
}

// A held message follows soon after the one before it is handled, also while messages are added
// slowly, or nothing is added.
func TestHeldMessagesFollowWhileOthersAreSlow(t *testing.T) {
	const minute = time.Minute
	for name, pause := range map[string]func(c *consumer, t *testing.T) error{
		"slow adds": func(_ *consumer, t *testing.T) error { time.Sleep(10 * minute); return nil },
		"sleep":     func(c *consumer, t *testing.T) error { return c.Sleep(t.Context(), 10*minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, began := newConsumer(Config[string]{Limit: 10, Ordered: true, Stop: true}), time.Now()
				c.after["a1"] = minute
				for _, id := range []string{"a1", "a2", "b1", "c1", "d1"} {
					if err := c.Add(t.Context(), Message{ID: id, Stream: id[:1], Bytes: 1}, id); err != nil {
						t.Fatal(err)
					}
					if id != "a1" {
						if err := pause(c, t); err != nil {
							t.Fatal(err)
						}
					}
				}
				within := 10 * minute
				if name == "sleep" {
					within = minute + longest
				}
				if at := c.sentAt["a2"].Sub(began); c.sentAt["a2"].IsZero() || at < minute || at > within {
					t.Errorf("a2 was sent after %s: %v", at, c.sent)
				}
				if slept := time.Since(began); slept != 40*minute {
					t.Errorf("it took %s", slept)
				}
			})
		})
	}
}

// Messages that are not sent keep within the lookahead of a held one, too.
func TestPassedMessagesAreInTheLookahead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(Config[string]{Limit: 10, Ordered: true, Stop: true})
		c.after["a1"] = time.Minute
		for _, id := range []string{"a1", "a2"} {
			if err := c.Add(t.Context(), Message{ID: id, Stream: "a", Bytes: 1}, id); err != nil {
				t.Fatal(err)
			}
		}
		for range Lookahead - 1 {
			if err := c.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		c.wantSent(t, "a1")
		if err := c.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.wantSent(t, "a1 a2")
	})
}
