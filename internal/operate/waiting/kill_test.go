package waiting

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// killed are the arguments of a process that decides, and is killed.
type killed struct {
	URL, Store string
	Topology   schemas.Topology
	Decision   Decision
	Messages   []WaitingMessage
	Keys       []string
}

const killedVariable = "WATERSHIP_TEST_DECIDE"

// TestMain decides in the process that TestKill starts and kills.
func TestMain(m *testing.M) {
	file := os.Getenv(killedVariable)
	if file == "" {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	text, err := os.ReadFile(file)
	var k killed
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	for i := range k.Messages {
		k.Messages[i].wait = k.Keys[i]
	}
	var store *sqlite.Store
	if err == nil {
		store, err = sqlite.Open(ctx, sqlite.Config{Path: k.Store})
	}
	if err == nil {
		_, err = os.Stdout.WriteString("begins\n")
	}
	if err == nil {
		broker := rabbit.Config{URL: k.URL, Name: "killed", Logger: slog.New(slog.DiscardHandler)}
		_, err = Control{Topology: k.Topology, Broker: broker, Records: store}.Decide(ctx, k.Decision, k.Messages)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

// A process that decides about waiting messages is killed at any point. Each message is then
// retried once, or was cancelled; those that wait still can be decided about once more.
func TestKill(t *testing.T) {
	eachKind(t, func(t *testing.T, b rabbittest.Broker, kind pipeline.QueueType) {
		r := newRig(t, b, kind, time.Hour)
		random := rand.New(rand.NewPCG(1, uint64(len(kind))))
		for round, d := range []Decision{{Action: Cancel}, {Action: Now}, {Action: Postpone, NotBefore: time.Now().Add(2 * time.Hour)}} {
			ids := r.publish("round"+string(rune('0'+round)), 100)
			r.waitLen(wire.DelaysOf(r.topology).Queue(time.Hour), len(ids))
			wanted := ids[:50]
			r.decideAndKill(d, wanted, time.Duration(random.Int64N(int64(150*time.Millisecond))))
			r.decide(Decision{Action: Now}, ids) // the rest of them
			for left := ids; len(left) > 0; {    // postponed ones, once their events are there
				r.until("a message is handled, cancelled or postponed", func() bool {
					left = r.left(left)
					return len(left) == 0 || len(r.postponed(left)) > 0
				})
				r.mu.Lock()
				postponed := r.postponed(left)
				r.mu.Unlock()
				r.decide(Decision{Action: Now}, postponed)
			}
			r.mu.Lock()
			for i, id := range ids {
				cancelled := r.events[schemas.Discarded][id]
				if r.retried[id]+cancelled != 1 || cancelled == 1 && (d.Action != Cancel || i >= len(wanted)) {
					t.Errorf("%s: retried %d times, cancelled %d times", id, r.retried[id], cancelled)
				}
			}
			r.mu.Unlock()
		}
		r.wantEmpty(time.Hour)
	})
}

// left returns the ids of messages that are neither handled nor cancelled.
func (r *rig) left(ids []string) (left []string) {
	for _, id := range ids {
		if r.events[schemas.Handled][id]+r.events[schemas.Discarded][id] == 0 {
			left = append(left, id)
		}
	}
	return left
}

// postponed returns the ids of messages whose latest event postponed them.
func (r *rig) postponed(ids []string) (postponed []string) {
	for _, id := range ids {
		if e := r.last[id]; e.Action == schemas.Rescheduled && e.Delay > time.Hour {
			postponed = append(postponed, id)
		}
	}
	return postponed
}

func (r *rig) decideAndKill(d Decision, ids []string, after time.Duration) {
	r.t.Helper()
	d.Operator, d.Reason = "killed", "killed"
	k := killed{URL: r.broker.URL, Store: r.path, Topology: r.topology, Decision: d, Messages: r.messages(ids)}
	for _, m := range k.Messages {
		k.Keys = append(k.Keys, m.wait)
	}
	text, err := json.Marshal(k)
	if err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.t.TempDir(), "decision.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killedVariable+"="+file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		r.t.Fatalf("%v\n%s", err, stderr.String())
	}
	time.Sleep(after)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if text := stderr.String(); text != "" {
		r.t.Fatal(text)
	}
}
