package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/alert"
)

var pace = alert.Pace{Wait: 30 * time.Second, Interval: 5 * time.Minute, Repeat: 12 * time.Hour}

// world has the store, the receivers and the conditions that all processes share.
type world struct {
	mu       sync.Mutex // guards the fields below
	document []byte
	version  int
	away     bool // the store
	lossy    bool // the store saves, and its answer is lost
	holding  map[string]time.Time
	down     map[string]bool // receivers
	taken    []taking
}

type taking struct {
	at time.Time
	alert.Notice
}

var errAway = &eventstore.Error{Kind: eventstore.Unavailable, Reason: "the store is away"}

// process is one process. Once it is killed, nothing that it does has an effect.
type process struct {
	*world
	name   string
	killed bool // guarded by world.mu
	cut    bool // from the store; guarded by world.mu
	cancel context.CancelFunc
	ended  chan struct{}
}

func (p *process) unavailable() error {
	if p.away || p.killed || p.cut {
		return errAway
	}
	return nil
}

func (p *process) Record(context.Context, string, string) ([]byte, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.document == nil {
		return nil, "", p.unavailable()
	}
	return slices.Clone(p.document), strconv.Itoa(p.version), p.unavailable()
}

func (p *process) CreateRecord(_ context.Context, _, _ string, document []byte) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.unavailable(); err != nil || p.document != nil {
		return "", err
	}
	p.document, p.version = document, 1
	return "1", nil
}

func (p *process) SaveRecord(_ context.Context, _, _, version string, document []byte) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.unavailable(); err != nil || version != strconv.Itoa(p.version) {
		return "", err
	}
	p.document, p.version = document, p.version+1
	if p.lossy {
		return "", errAway
	}
	return strconv.Itoa(p.version), nil
}

func (p *process) send(_ context.Context, n alert.Notice) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed || p.down[n.Receiver] {
		return errors.New("connection refused")
	}
	p.taken = append(p.taken, taking{time.Now(), n})
	return nil
}

func (p *process) evaluate(context.Context, json.RawMessage) ([]alert.Alert, json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return nil, nil, errAway
	}
	var found []alert.Alert
	for name := range p.holding {
		found = append(found, alert.Alert{Labels: map[string]string{"queue": name}, Summary: "queue " + name})
	}
	return found, nil, nil
}

func (w *world) start(name string, receivers ...string) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{world: w, name: name, cancel: cancel, ended: make(chan struct{})}
	cfg := alert.Config{
		Store: p, Source: "shop", Process: name,
		Rules: []alert.Rule{{Name: "poisoned", On: alert.OnPoisoned, For: time.Minute, Every: 30 * time.Second, Receivers: receivers, Evaluate: p.evaluate}},
	}
	for _, r := range receivers {
		cfg.Receivers = append(cfg.Receivers, alert.Receiver{Name: r, Pace: pace, Send: p.send})
	}
	n := alert.New(cfg)
	go func() {
		defer close(p.ended)
		n.Run(ctx)
	}()
	return p
}

// kill ends a process as SIGKILL does.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.stop()
}

func (p *process) stop() {
	p.cancel()
	<-p.ended
}

func (w *world) set(change func(w *world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func newWorld() *world { return &world{holding: map[string]time.Time{}, down: map[string]bool{}} }

// TestModel runs two or three processes through hours of alerts that come and go, of outages,
// of stops and of kills. Each receiver gets each change once, in order and within its pace,
// and at the end knows the state of each alert.
func TestModel(t *testing.T) {
	for seed := range uint64(12) {
		kills := seed%2 == 1
		t.Run(fmt.Sprintf("%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, seed, kills) })
		})
	}
}

func runModel(t *testing.T, seed uint64, kills bool) {
	random, w := rand.New(rand.NewPCG(seed, 1)), newWorld()
	receivers := []string{"chat", "mail"}
	processes := map[string]*process{}
	next := 0
	begin := func() {
		next++
		name := fmt.Sprintf("process-%d", next)
		processes[name] = w.start(name, receivers...)
	}
	begin()
	begin()
	killed := 0
	for range 100 {
		time.Sleep(time.Duration(random.IntN(600)) * time.Second)
		names := slices.Sorted(maps.Keys(processes))
		name := names[random.IntN(len(names))]
		switch random.IntN(10) {
		case 0:
			w.set(func(w *world) { w.away = !w.away })
		case 1:
			w.set(func(w *world) { w.down["chat"] = !w.down["chat"] })
		case 2:
			w.set(func(w *world) { w.lossy = !w.lossy && !w.away })
			time.Sleep(time.Duration(random.IntN(8)) * time.Second)
			w.set(func(w *world) { w.lossy = false })
			w.set(func(*world) { processes[name].cut = !processes[name].cut })
		case 3, 4:
			if len(processes) < 3 {
				begin()
			}
			if kills {
				processes[name].kill()
				killed++
			} else {
				w.set(func(w *world) { w.away, processes[name].cut = false, false }) // or the state is not saved
				time.Sleep(10 * time.Second)
				processes[name].stop()
			}
			if delete(processes, name); len(processes) == 0 {
				begin()
			}
		default:
			queue := fmt.Sprintf("q%d", random.IntN(5))
			w.set(func(w *world) {
				if _, holds := w.holding[queue]; holds {
					delete(w.holding, queue)
				} else {
					w.holding[queue] = time.Now()
				}
			})
		}
	}
	w.set(func(w *world) { w.away, w.down = false, map[string]bool{} })
	for _, p := range processes {
		w.set(func(*world) { p.cut = false })
	}
	time.Sleep(time.Hour)
	for _, p := range processes {
		p.stop()
	}
	check(t, w, receivers, killed)
}

// check compares what the receivers were told with the truth.
func check(t *testing.T, w *world, receivers []string, killed int) {
	t.Helper()
	if len(w.taken) < 20 {
		t.Errorf("only %d notices", len(w.taken))
	}
	for _, receiver := range receivers {
		last, at, ids, twice := map[string]string{}, map[string]time.Time{}, map[string]bool{}, 0
		var before time.Time
		for _, n := range w.taken {
			if n.Receiver != receiver {
				continue
			}
			if n.at.Sub(before) < pace.Interval {
				twice++
			}
			before = n.at
			for _, item := range n.Alerts {
				queue := item.Labels["queue"]
				repeated := last[queue] == item.Status && n.at.Sub(at[queue]) < pace.Repeat && item.Status == alert.Firing
				if repeated && !ids[n.ID] {
					twice++
				}
				last[queue], at[queue] = item.Status, n.at
			}
			ids[n.ID] = true
		}
		if twice > killed {
			t.Errorf("%s: %d alerts told twice or too early with %d kills", receiver, twice, killed)
		}
		for queue, status := range last {
			if _, holds := w.holding[queue]; holds != (status == alert.Firing) {
				t.Errorf("%s: %s is told as %s, and holds: %v", receiver, queue, status, holds)
			}
		}
		for queue := range w.holding {
			if last[queue] == "" {
				t.Errorf("%s: %s is not told", receiver, queue)
			}
		}
	}
}
