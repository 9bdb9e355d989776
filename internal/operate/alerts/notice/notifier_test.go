package notice_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
)

func (w *world) hold(queues ...string) {
	w.change(func(w *world) {
		for _, queue := range queues {
			w.holding[queue] = time.Now()
		}
	})
}

func (w *world) end(queues ...string) {
	w.change(func(w *world) {
		for _, queue := range queues {
			delete(w.holding, queue)
		}
	})
}

// told returns the notices in short: the receiver, then each queue with its status.
func (w *world) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, n := range w.taken {
		line := n.Receiver + ":"
		for _, item := range n.Alerts {
			line += " " + item.Labels["queue"] + " " + item.Status
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func expect(t *testing.T, w *world, want ...string) {
	t.Helper()
	if got := w.told(); got != strings.Join(want, "\n") {
		t.Errorf("the receivers were told:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// A burst is one notice, the next one keeps its distance, and what ends is told, too.
func TestBurstAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.start("a", "chat")
		defer p.stop()
		w.hold("orders", "mails", "bills")
		time.Sleep(3 * time.Minute)
		expect(t, w, "chat: bills firing mails firing orders firing")
		first := w.taken[0].at
		w.end("orders")
		w.hold("late")
		time.Sleep(10 * time.Minute)
		expect(t, w, "chat: bills firing mails firing orders firing", "chat: late firing orders resolved")
		if gap := w.taken[1].at.Sub(first); gap < pace.Interval {
			t.Errorf("two notices within %s", gap)
		}
		if n := w.taken[1]; n.Status != notice.Firing || n.Others != 2 || n.Alerts[1].Ended == nil {
			t.Errorf("the notice is %+v", n)
		}
	})
}

// A condition that ends within the `for` of its rule is no alert.
func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.start("a", "chat")
		defer p.stop()
		w.hold("orders")
		time.Sleep(40 * time.Second)
		state, err := notice.Read(t.Context(), p, "shop")
		if items := state.Items(); err != nil || len(items) != 1 || items[0].Status != notice.Pending {
			t.Errorf("%+v, %v", items, err)
		}
		w.end("orders")
		time.Sleep(time.Hour)
		expect(t, w)
	})
}

// An alert that lasts is told again after the time for that, and no earlier.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.start("a", "chat")
		defer p.stop()
		w.hold("orders")
		time.Sleep(25 * time.Hour)
		expect(t, w, "chat: orders firing", "chat: orders firing", "chat: orders firing")
	})
}

// An alert that fires and ends while its receiver is away is told with both times. A receiver
// that is away holds up no other.
func TestReceiverIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.down["mail"] = true
		p := w.start("a", "chat", "mail")
		defer p.stop()
		w.hold("orders")
		time.Sleep(10 * time.Minute)
		w.end("orders")
		time.Sleep(time.Hour)
		expect(t, w, "chat: orders firing", "chat: orders resolved")
		state, err := notice.Read(t.Context(), p, "shop")
		if mail := state.Receivers["mail"]; err != nil || mail.Failures < 10 || !strings.Contains(mail.Error, "refused") {
			t.Errorf("the state of the receiver is %+v, %v", mail, err)
		}
		w.change(func(w *world) { w.down["mail"] = false })
		time.Sleep(10 * time.Minute)
		expect(t, w, "chat: orders firing", "chat: orders resolved", "mail: orders resolved")
		if ended := w.taken[2].Alerts[0].Ended; ended.Sub(w.taken[2].Alerts[0].Since) < 8*time.Minute {
			t.Errorf("it ended at %s", ended)
		}
	})
}

// Another process goes on where one ended: with what is not told yet, and with nothing else.
func TestRestart(t *testing.T) {
	for name, end := range map[string]func(*process){"stopped": (*process).stop, "killed": (*process).kill} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.change(func(w *world) { w.down["mail"] = true })
				first := w.start("a", "chat", "mail")
				w.hold("orders")
				time.Sleep(5 * time.Minute)
				end(first)
				w.change(func(w *world) { w.down["mail"] = false })
				w.end("orders") // while no process runs
				time.Sleep(time.Hour)
				second := w.start("b", "chat", "mail")
				defer second.stop()
				time.Sleep(10 * time.Minute)
				got := strings.Split(w.told(), "\n")
				if len(got) != 4 && len(got) != 3 || got[0] != "chat: orders firing" || strings.Count(w.told(), "firing") > 2 || strings.Count(w.told(), "resolved") != 2 {
					t.Errorf("the receivers were told:\n%s", w.told())
				}
			})
		})
	}
}

// Of three processes one notifies. When it is killed, another takes over within the lease.
func TestOneOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		processes := map[string]*process{}
		for _, name := range []string{"a", "b", "c"} {
			processes[name] = w.start(name, "chat")
		}
		w.hold("orders")
		time.Sleep(time.Hour)
		expect(t, w, "chat: orders firing")
		holder := holderOf(t, w)
		processes[holder].kill()
		delete(processes, holder)
		w.end("orders")
		time.Sleep(3 * time.Minute)
		expect(t, w, "chat: orders firing", "chat: orders resolved")
		for _, p := range processes {
			p.stop()
		}
	})
}

// However long before its kill a process has saved the state, another has the lease 10 seconds later.
func TestTakeoverWithinTenSeconds(t *testing.T) {
	for n := range 20 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			processes := map[string]*process{"a": w.start("a", "chat"), "b": w.start("b", "chat")}
			time.Sleep(time.Minute + time.Duration(n)*130*time.Millisecond)
			killed := holderOf(t, w)
			processes[killed].kill()
			delete(processes, killed)
			time.Sleep(10 * time.Second)
			if holder := holderOf(t, w); holder == killed {
				t.Errorf("after 10 s %s still holds the lease", holder)
			}
			for _, p := range processes {
				p.stop()
			}
		})
	}
}

func holderOf(t *testing.T, w *world) string {
	t.Helper()
	var state notice.State
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := json.Unmarshal(w.document, &state); err != nil {
		t.Fatal(err)
	}
	return state.Holder
}

// A process that lives keeps the lease, also if the answer to a save was lost.
func TestHolderStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b := w.start("a", "chat"), w.start("b", "chat")
		defer a.stop()
		defer b.stop()
		time.Sleep(time.Minute)
		holder := holderOf(t, w)
		for range 100 {
			time.Sleep(17 * time.Second)
			w.change(func(w *world) { w.lossy = true })
			time.Sleep(6 * time.Second)
			w.change(func(w *world) { w.lossy = false })
			if now := holderOf(t, w); now != holder {
				t.Fatalf("%s holds the lease after %s", now, holder)
			}
		}
	})
}

// A store that is away is told without it, once; every other notice waits until the state is
// saved.
func TestStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := &process{world: w, name: "a"}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		rule := notice.Rule{Name: "doctor", On: notice.OnDoctor, Every: time.Minute, Receivers: []string{"chat"}}
		rule.Evaluate = func(context.Context, json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			var found []notice.Alert
			if w.away {
				for _, check := range []string{"store", "broker"} {
					found = append(found, notice.Alert{Labels: map[string]string{"check": check, "queue": check}})
				}
			}
			return found, nil, nil
		}
		n := notice.New(notice.Config{Store: p, Source: "shop", Process: "a"})
		n.Replace(notice.Set{Rules: []notice.Rule{rule}, Receivers: []notice.Receiver{{Name: "chat", Pace: pace, Send: p.send}}})
		go func() {
			defer close(ended)
			n.Run(ctx)
		}()
		time.Sleep(time.Minute + 2*time.Second) // not when the rule is evaluated
		w.change(func(w *world) { w.away = true })
		time.Sleep(20 * time.Minute)
		expect(t, w, "chat: store firing")
		w.change(func(w *world) { w.away = false })
		time.Sleep(20 * time.Minute)
		expect(t, w, "chat: store firing", "chat: broker firing", "chat: broker resolved store resolved")
		cancel()
		<-ended
	})
}

// Other rules and receivers replace those before: an alert goes on, one of a rule that there is
// no more ends, and a new receiver is told what fires.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.start("a", "chat")
		defer p.stop()
		w.hold("orders")
		time.Sleep(10 * time.Minute)
		p.replace(p.set("poisoned", "chat", "mail"))
		time.Sleep(10 * time.Minute)
		expect(t, w, "chat: orders firing", "mail: orders firing")
		p.replace(p.set("other", "mail"))
		time.Sleep(10 * time.Minute)
		expect(t, w, "chat: orders firing", "mail: orders firing", "mail: orders resolved", "mail: orders firing")
		p.replace(notice.Set{Receivers: p.set("", "mail").Receivers})
		time.Sleep(10 * time.Minute)
		expect(t, w, "chat: orders firing", "mail: orders firing", "mail: orders resolved", "mail: orders firing", "mail: orders resolved")
	})
}

// A receiver that asks for a pause gets no notice before its end.
func TestReceiverAsksForAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.down["chat"], w.later = true, 40*time.Minute
		p := w.start("a", "chat")
		defer p.stop()
		w.hold("orders")
		time.Sleep(5 * time.Minute)
		w.change(func(w *world) { w.down["chat"] = false })
		time.Sleep(30 * time.Minute)
		expect(t, w)
		time.Sleep(10 * time.Minute)
		expect(t, w, "chat: orders firing")
	})
}

// An alert whose condition is muted ends, and says so.
func TestMuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.start("a", "chat")
		defer p.stop()
		w.hold("orders")
		time.Sleep(10 * time.Minute)
		w.change(func(w *world) { w.muted = "by ada until noon" })
		time.Sleep(10 * time.Minute)
		w.change(func(w *world) { w.muted = "" })
		time.Sleep(10 * time.Minute)
		expect(t, w, "chat: orders firing", "chat: orders resolved", "chat: orders firing")
		for i, want := range []string{"", "by ada until noon", ""} {
			if got := w.taken[i].Alerts[0].Muted; got != want {
				t.Errorf("notice %d is muted %q", i, got)
			}
		}
	})
}

// A notice tells how many alerts are left out.
func TestOmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for n := range notice.MaxOfRule + 7 { // before the first evaluation
			w.hold(fmt.Sprint("q", n))
		}
		p := w.start("a", "chat")
		defer p.stop()
		time.Sleep(10 * time.Minute)
		if n := w.taken[0]; len(n.Alerts) != notice.MaxOfRule || n.Omitted != 7 {
			t.Errorf("%d alerts, and %d are left out", len(n.Alerts), n.Omitted)
		}
	})
}

// A receiver that is down does not know which alerts have ended. They take no room of new ones, of
// which the other receivers are told, and the oldest are forgotten.
func TestReceiverThatIsDownTakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.down["mail"] = true
		p := w.start("a", "chat", "mail")
		for round := range 3 {
			for n := range notice.MaxOfRule / 2 {
				w.hold(fmt.Sprint("q", round, "-", n))
			}
			time.Sleep(2 * time.Minute)
			w.change(func(w *world) { clear(w.holding) })
			time.Sleep(time.Minute)
		}
		w.hold("new")
		time.Sleep(7 * time.Minute)
		if told, _ := w.known("chat"); !told["new"] {
			t.Error("chat does not know the new alert")
		}
		w.change(func(w *world) { w.down["mail"] = false })
		time.Sleep(6 * time.Minute)
		p.stop()
		if told, ended := w.known("mail"); !told["new"] || ended == 0 || ended > notice.MaxOfRule {
			t.Errorf("mail knows the new alert: %v, and %d that have ended", told["new"], ended)
		}
	})
}

// known returns the alerts that a receiver was told of last as firing, and the number of those that
// it was told of as resolved.
func (w *world) known(receiver string) (firing map[string]bool, ended int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	firing = map[string]bool{}
	for _, n := range w.taken {
		for _, item := range n.Alerts {
			switch {
			case n.Receiver != receiver:
			case item.Status == notice.Firing:
				firing[item.Labels["queue"]] = true
			default:
				delete(firing, item.Labels["queue"])
				ended++
			}
		}
	}
	return firing, ended
}

// A clock that was ahead delays nothing once it is right: what its times say later than now counts
// as now. That is so for what receivers were told, for their pauses and for the rule's `for`.
func TestClockWasAhead(t *testing.T) {
	const ahead = time.Hour
	for name, down := range map[string]bool{"taken": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.change(func(w *world) { w.down["chat"] = down })
				first := w.start("a", "chat")
				w.hold("orders")
				time.Sleep(5 * time.Minute)
				w.hold("mails") // is pending when the clock is set right
				time.Sleep(40 * time.Second)
				first.stop()
				w.change(func(w *world) {
					w.down["chat"] = false
					w.document = later(t, w.document, ahead)
				})
				w.hold("bills")
				second := w.start("b", "chat")
				defer second.stop()
				time.Sleep(10 * time.Minute)
				if told := w.told(); !strings.Contains(told, "bills firing") || !strings.Contains(told, "mails firing") || !strings.Contains(told, "orders firing") {
					t.Errorf("the receivers were told:\n%s", told)
				}
				w.end("orders")
				time.Sleep(10 * time.Minute)
				for _, n := range w.taken {
					for _, item := range n.Alerts {
						if item.Since.After(n.at) || item.Ended != nil && item.Ended.Before(item.Since) {
							t.Errorf("at %s %s fires since %s to %s", n.at, item.Summary, item.Since, item.Ended)
						}
					}
				}
				if told := w.told(); !strings.Contains(told, "orders resolved") {
					t.Errorf("the receivers were told:\n%s", told)
				}
			})
		})
	}
}

// later returns a record as a process with a clock that is ahead would have saved it.
func later(t *testing.T, document []byte, ahead time.Duration) []byte {
	t.Helper()
	times := regexp.MustCompile(`"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[^"]*"`)
	return times.ReplaceAllFunc(document, func(text []byte) []byte {
		var at time.Time
		if err := json.Unmarshal(text, &at); err != nil {
			t.Fatal(err)
		}
		moved, err := json.Marshal(at.Add(ahead))
		if err != nil {
			t.Fatal(err)
		}
		return moved
	})
}

// A process without rules takes no lease, until it gets some.
func TestNoRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := &process{world: w, name: "a"}
		n := notice.New(notice.Config{Store: p, Source: "shop", Process: "a"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			n.Run(ctx)
		}()
		w.hold("orders")
		time.Sleep(time.Hour)
		if w.document != nil {
			t.Errorf("it has saved %s", w.document)
		}
		n.Replace(p.set("poisoned", "chat"))
		time.Sleep(10 * time.Minute)
		expect(t, w, "chat: orders firing")
		cancel()
		<-ended
	})
}

// A notice that was taken before its process was killed, and before that was saved, is sent
// again with the same id.
func TestKilledWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.change(func(w *world) { w.deadly = true })
		first := w.start("a", "chat")
		w.hold("orders")
		time.Sleep(5 * time.Minute)
		first.stop()
		expect(t, w, "chat: orders firing")
		second := w.start("b", "chat")
		defer second.stop()
		time.Sleep(10 * time.Minute)
		expect(t, w, "chat: orders firing", "chat: orders firing")
		if w.taken[0].ID != w.taken[1].ID {
			t.Errorf("the ids are %s and %s", w.taken[0].ID, w.taken[1].ID)
		}
	})
}
