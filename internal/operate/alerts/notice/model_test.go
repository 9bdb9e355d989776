package notice_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
)

var pace = notice.Pace{Wait: 30 * time.Second, Interval: 5 * time.Minute, Repeat: 12 * time.Hour}

// world has the store, the receivers and the conditions that all processes share.
type world struct {
	mu       sync.Mutex // guards the fields below
	document []byte
	version  int
	away     bool // the store
	lossy    bool // the store saves, and its answer is lost
	holding  map[string]time.Time
	down     map[string]bool // receivers
	later    time.Duration   // for which receivers that are down ask
	muted    string          // the conditions are muted, by whom and until when
	deadly   bool            // the process that sends next is killed
	taken    []taking
}

type taking struct {
	at time.Time
	notice.Notice
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

	replace func(notice.Set)
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

func (p *process) send(_ context.Context, n notice.Notice) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed || p.down[n.Receiver] {
		if p.later > 0 {
			return &notice.LaterError{After: p.later, Err: errors.New("it answered 429")}
		}
		return errors.New("connection refused")
	}
	p.taken = append(p.taken, taking{time.Now(), n})
	if p.deadly {
		p.deadly, p.killed = false, true // before it can save that
	}
	return nil
}

func (p *process) evaluate(context.Context, json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return nil, nil, errAway
	}
	var found []notice.Alert
	for name := range p.holding {
		found = append(found, notice.Alert{Labels: map[string]string{"queue": name}, Summary: "queue " + name, Muted: p.muted})
	}
	return found, nil, nil
}

func (w *world) start(name string, receivers ...string) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{world: w, name: name, cancel: cancel, ended: make(chan struct{})}
	n := notice.New(notice.Config{Store: p, Source: "shop", Process: name})
	n.Replace(p.set("poisoned", receivers...))
	p.replace = n.Replace
	go func() {
		defer close(p.ended)
		n.Run(ctx)
	}()
	return p
}

// set returns a rule and receivers.
func (p *process) set(rule string, receivers ...string) (set notice.Set) {
	set.Rules = []notice.Rule{{Name: rule, On: notice.OnPoisoned, For: time.Minute, Every: 30 * time.Second, Receivers: receivers, Evaluate: p.evaluate}}
	for _, r := range receivers {
		set.Receivers = append(set.Receivers, notice.Receiver{Name: r, Pace: pace, Send: p.send})
	}
	return set
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

func (w *world) change(change func(w *world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func newWorld() *world { return &world{holding: map[string]time.Time{}, down: map[string]bool{}} }

// TestModel runs two or three processes through hours of alerts that come and go, of outages,
// of stops and of kills. Each receiver gets each change once, in order and within its pace,
// and at the end knows the state of each alert. The long tests have more seeds.
func TestModel(t *testing.T) {
	seeds := uint64(2)
	if os.Getenv("WATERSHIP_TEST_SOAK") != "" {
		seeds = 20
	}
	for seed := range seeds {
		kills := seed%2 == 1
		t.Run(fmt.Sprintf("%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, seed, kills) })
		})
	}
}

func runModel(t *testing.T, seed uint64, kills bool) {
	random, w := rand.New(rand.NewPCG(seed, 1)), newWorld()
	m := &model{random, w, map[string]*process{}, 0}
	m.begin()
	m.begin()
	killed := 0
	for range 50 {
		time.Sleep(time.Duration(random.IntN(400)) * time.Second)
		m.step()
		if kills && random.IntN(4) == 0 {
			killed++
			m.kill()
		}
	}
	w.change(func(w *world) { w.away, w.down, w.deadly = false, map[string]bool{}, false })
	for _, p := range m.processes {
		w.change(func(*world) { p.cut = false })
	}
	time.Sleep(time.Hour)
	for _, p := range m.processes {
		p.stop()
	}
	check(t, w, killed)
}

// model changes a world at random. It does so at other moments than those at which processes
// act, but for kills while a notice is sent: no other fault happens between a notice and the
// save that follows it.
type model struct {
	*rand.Rand
	*world
	processes map[string]*process
	started   int
}

var receivers = []string{"chat", "mail"}

func (m *model) begin() {
	time.Sleep(500 * time.Millisecond)
	m.started++
	name := fmt.Sprintf("process-%d", m.started)
	m.processes[name] = m.start(name, receivers...)
	time.Sleep(500 * time.Millisecond)
}

// any returns a process.
func (m *model) any() *process {
	names := slices.Sorted(maps.Keys(m.processes))
	return m.processes[names[m.IntN(len(names))]]
}

func (m *model) step() {
	p := m.any()
	switch m.IntN(10) {
	case 0:
		m.change(func(w *world) { w.away = !w.away })
	case 1:
		m.change(func(w *world) { w.down["chat"] = !w.down["chat"] })
	case 2:
		m.change(func(w *world) { w.lossy = !w.away })
		time.Sleep(time.Duration(m.IntN(8)) * time.Second)
		m.change(func(w *world) { w.lossy = false })
	case 3:
		m.change(func(*world) { p.cut = !p.cut })
	case 4:
		m.begin()
		m.change(func(w *world) { w.away, p.cut = false, false }) // or the state is not saved
		time.Sleep(10 * time.Second)
		m.remove(p)
	default:
		queue := fmt.Sprintf("q%d", m.IntN(5))
		m.change(func(w *world) {
			if _, holds := w.holding[queue]; holds {
				delete(w.holding, queue)
			} else {
				w.holding[queue] = time.Now()
			}
		})
	}
}

// kill kills a process, at once or while it sends its next notice.
func (m *model) kill() {
	m.begin()
	if m.IntN(2) == 0 {
		p := m.any()
		p.kill()
		m.remove(p)
		return
	}
	m.change(func(w *world) { w.deadly = true })
	time.Sleep(10 * time.Minute)
	for _, p := range maps.Clone(m.processes) {
		if m.isKilled(p) {
			m.remove(p)
		}
	}
	if len(m.processes) == 0 {
		m.begin()
	}
}

func (m *model) isKilled(p *process) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return p.killed
}

func (m *model) remove(p *process) {
	p.stop()
	delete(m.processes, p.name)
}

// check compares what the receivers were told with the truth.
func check(t *testing.T, w *world, killed int) {
	t.Helper()
	if len(w.taken) < 10 {
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
				repeated := last[queue] == item.Status && n.at.Sub(at[queue]) < pace.Repeat && item.Status == notice.Firing
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
			if _, holds := w.holding[queue]; holds != (status == notice.Firing) {
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
