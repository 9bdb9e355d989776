package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
)

// process is a process of serve, which the simulation ends and starts again.
type process struct {
	name   string
	world  *world
	routes func(*life) []pipeline.Route
	clock  clock

	mu    sync.Mutex // guards the fields below
	life  *life      // nil: it does not run
	lives int
}

// life is the time between a start and an end of a process.
type life struct {
	name    string // of the process, and the number of the life
	process *process
	world   *world
	link    *storeLink
	end     context.CancelFunc
	ended   chan struct{}

	server   atomic.Pointer[server.Server] // nil: it begins
	returned chan struct{}                 // has an element after a handler has returned

	mu     sync.Mutex // guards the fields below
	dead   bool       // killed: nothing that it does counts
	paused time.Time  // until then it sends and receives nothing
}

// dial connects the process to the broker, as long as it lives.
func (l *life) dial(_, address string) (net.Conn, error) {
	conn, err := l.world.network.dial(l.name, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead { // kill has cut the streams that there were
		_ = conn.Close()
		return nil, errKilled
	}
	if left := time.Until(l.paused); left > 0 {
		l.stall(left)
	}
	return conn, nil
}

// dialTarget connects the process to the URL of a subscription.
func (l *life) dialTarget(_ context.Context, network, address string) (net.Conn, error) {
	return l.dial(network, address)
}

// stall delivers nothing on the connections of the process for a time.
func (l *life) stall(d time.Duration) {
	for _, s := range l.world.network.of(l.name) {
		s.out.stall(d)
		s.in.stall(d)
	}
}

// die ends the process: none of its frames reaches the broker after this moment.
func (l *life) die() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	for _, s := range l.world.network.of(l.name) {
		s.cut()
	}
}

func (l *life) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// start starts the process unless it runs.
func (p *process) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life != nil {
		return
	}
	p.lives++
	ctx, end := context.WithCancel(context.Background())
	l := &life{name: fmt.Sprintf("%s.%d", p.name, p.lives), process: p, world: p.world, end: end, ended: make(chan struct{}), returned: make(chan struct{}, 1)}
	l.link = &storeLink{world: p.world, name: l.name}
	p.life = l
	p.world.note(l.name, "starts")
	go p.clock.run(func() {
		defer close(l.ended)
		defer end()
		if err := l.run(ctx, p.routes(l)); err != nil && !l.isDead() && ctx.Err() == nil {
			p.world.fail("%s ended with: %v", l.name, err)
		}
	})
}

func (l *life) run(ctx context.Context, routes []pipeline.Route) error {
	settings, err := l.world.settings()
	if err != nil {
		return err
	}
	log := slog.New(logOf{l})
	sys, err := system.Start(ctx, system.Config{
		Settings: settings, Name: "serve", Logger: log, Dial: l.dial, DialTarget: l.dialTarget,
		OpenStore: func(context.Context) (system.ClosableStore, error) {
			return newProcessStore(l.world.store, l.link), nil
		},
	})
	if err != nil {
		return err
	}
	s, err := server.New(ctx, sys, server.Config{Routes: routes, Taps: []pipeline.Tap{{Exchange: exchange, Type: "topic"}}, Reload: l.world.settings})
	if err == nil {
		l.server.Store(s)
		err = s.Run(ctx, server.Faces{})
	}
	_ = sys.Close()
	return err
}

// current returns the life of a process that runs; nil: it does not run.
func (p *process) current() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}

// kill ends the process as SIGKILL does: nothing that it does after this moment reaches the broker
// or the store. Its goroutines end later, unseen.
func (p *process) kill() {
	l := p.takeLife()
	if l == nil {
		return
	}
	l.die()
	l.link.kill()
	l.end()
	p.world.afterLife(l.ended)
}

// awaitMoment waits until a handler of the process has returned, and up to 4 milliseconds more:
// most steps that a fault can separate happen then. For half of the choices it does not wait.
func (p *process) awaitMoment(choice int) {
	l := p.current()
	if l == nil || choice%2 == 0 {
		return
	}
	select {
	case <-l.returned:
	default:
	}
	select {
	case <-l.returned:
		time.Sleep(time.Duration(choice/2%16) * 250 * time.Microsecond)
	case <-time.After(10 * time.Second):
	}
}

// stop ends the process as SIGTERM does.
func (p *process) stop() {
	if l := p.takeLife(); l != nil {
		l.end()
		<-l.ended
	}
}

// takeLife returns the present life of the process, which has none then; nil if it had none.
func (p *process) takeLife() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.life
	p.life = nil
	return l
}

// pause stops the process for a time, as far as others see: it sends, receives and stores nothing.
func (p *process) pause(d time.Duration) {
	l := p.current()
	if l == nil {
		return
	}
	l.link.pause(d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = time.Now().Add(d)
	l.stall(d)
}

// logOf writes warnings and errors of a life to the timeline.
type logOf struct{ life *life }

// Enabled implements slog.Handler.
func (h logOf) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// WithAttrs implements slog.Handler.
func (h logOf) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h logOf) WithGroup(string) slog.Handler { return h }

// Handle implements slog.Handler.
func (h logOf) Handle(_ context.Context, r slog.Record) error {
	if h.life.isDead() {
		return nil
	}
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	h.life.world.note(h.life.name, text)
	if r.Message == placesLost {
		losePlaces(h.life.world.oracle)
	}
	return nil
}
