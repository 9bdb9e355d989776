package simulation

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/projection"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// projectors are processes of a program with one projection, of which one at a time handles the events. Its
// table has a row for each event that was handled.
type projectors struct {
	world *world
	path  string // of the database
	all   []*projector
}

// projector is a process, which the simulation ends and starts again.
type projector struct {
	world *world
	path  string
	name  string

	mu    sync.Mutex // guards the fields below
	life  *life      // with a link to the store
	end   context.CancelFunc
	lives int
}

// useTimeOfTheBubble lets databases take the time of the simulation.
func useTimeOfTheBubble() error {
	return sqlite.RegisterScalarFunction("julianday", 1, func(_ *sqlite.FunctionContext, _ []driver.Value) (driver.Value, error) {
		return 2440587.5 + float64(time.Now().UnixMicro())/86_400_000_000, nil
	})
}

// start starts the processes, which run until ctx ends. wait returns when they have ended.
func (p *projectors) start(ctx context.Context, n int) (wait func()) {
	var running sync.WaitGroup
	for i := range n {
		one, offset := &projector{world: p.world, path: p.path, name: fmt.Sprint("projector", i)}, time.Duration(p.world.nextOffset())
		p.all = append(p.all, one)
		running.Go(func() { one.run(ctx, offset) })
	}
	return running.Wait
}

// run runs the process, again after each end.
func (p *projector) run(ctx context.Context, offset time.Duration) {
	for ctx.Err() == nil {
		p.mu.Lock()
		p.lives++
		l := &life{name: fmt.Sprintf("%s.%d", p.name, p.lives), world: p.world}
		l.link = &storeLink{world: p.world, name: l.name}
		living, end := context.WithCancel(ctx)
		p.life, p.end = l, end
		p.mu.Unlock()
		bodiless := p.world.oracle.losses.hasBodiless()
		if err := p.project(living, l, bodiless); err != nil && !l.isDead() && ctx.Err() == nil {
			if bodiless == p.world.oracle.losses.hasBodiless() {
				p.world.fail("%s ended with: %v", l.name, err)
			}
		}
		end()
		time.Sleep(time.Second + offset)
	}
}

// project handles events until ctx ends, also bodiless ones once copies of messages are lost. If the process was killed, the database has lost its connections before.
func (p *projector) project(ctx context.Context, l *life, bodiless bool) error {
	db, err := openTable(p.path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	stop := context.AfterFunc(ctx, func() {
		if l.isDead() {
			_ = db.Close()
		}
	})
	defer stop()
	one, err := projection.New(projection.Config{
		Name: "events", Version: 1, Tables: []string{"handled_events"}, DB: db, Logger: slog.New(logOf{l}), WithoutBodies: bodiless,
		Create: func(ctx context.Context, tx *sql.Tx, tables projection.Tables) error {
			_, err := tx.ExecContext(ctx, "CREATE TABLE "+tables.Name("handled_events")+" (number INTEGER PRIMARY KEY AUTOINCREMENT, sequence BIGINT, event_id TEXT)")
			return err
		},
		Handle: func(ctx context.Context, tx *sql.Tx, tables projection.Tables, e schemas.Event) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO "+tables.Name("handled_events")+" (sequence, event_id) VALUES ($1, $2)", e.Sequence, e.EventID)
			return err
		},
		Reader: subscription.Reader{
			Store: newProcessStore(p.world.store, l.link), Source: "simulation", Interval: time.Second,
			Query: kql.Or{kql.FieldIs("event.action", string(schemas.Published)), kql.FieldIs("event.action", string(schemas.Handled))},
		},
	})
	if err != nil {
		return err
	}
	return one.Run(ctx)
}

func openTable(path string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
}

// meet lets the process meet a fault.
func (p *projector) meet(f Fault) {
	p.mu.Lock()
	l, end := p.life, p.end
	p.mu.Unlock()
	switch f.Kind {
	case KillProjector:
		l.die()
		l.link.kill()
		end()
	case ProjectorStoreRefuses:
		l.link.meet(refusesRequests, f.For)
	case ProjectorStoreLoses:
		l.link.meet(losesAnswers, f.For)
	}
}

// row is a row of the table.
type row struct {
	sequence int64
	event    string
}

// rows returns the rows in the order in which they were added.
func (p *projectors) rows(ctx context.Context) (rows []row, err error) {
	db, err := openTable(p.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	result, err := db.QueryContext(ctx, "SELECT sequence, event_id FROM handled_events ORDER BY number")
	if err != nil {
		return nil, err
	}
	defer func() { _ = result.Close() }()
	for result.Next() {
		var r row
		if err := result.Scan(&r.sequence, &r.event); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, result.Err()
}

// expected returns the ids of the events that the table has to have.
func (p *projectors) expected(ctx context.Context) (ids []string, err error) {
	events, err := p.world.watch.events(ctx, p.world.store)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if e.Action == schemas.Published || e.Action == schemas.Handled {
			ids = append(ids, e.EventID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// unfinished returns a text if the table does not have all events.
func (p *projectors) unfinished(ctx context.Context) []string {
	if len(p.all) == 0 {
		return nil
	}
	expected, err := p.expected(ctx)
	rows, unread := p.rows(ctx)
	if err != nil || unread != nil || len(rows) < len(expected) {
		return []string{fmt.Sprintf("the projection has %d events of %d (%v, %v)", len(rows), len(expected), err, unread)}
	}
	return nil
}

// check reports events that the table does not have once, in the order of their positions.
func (p *projectors) check(ctx context.Context) {
	if len(p.all) == 0 {
		return
	}
	expected, err := p.expected(ctx)
	rows, unread := p.rows(ctx)
	if err != nil || unread != nil {
		p.world.fail("reading the projection: %v, %v", err, unread)
		return
	}
	var last row
	handled := map[string]int{}
	for _, r := range rows {
		handled[r.event]++
		if r.sequence < last.sequence || r.sequence == last.sequence && r.event < last.event {
			p.world.fail("the projection handles %d:%s after %d:%s", r.sequence, r.event, last.sequence, last.event)
		}
		last = r
	}
	for _, id := range expected {
		if n := handled[id]; n != 1 {
			p.world.fail("the projection has handled %s %d times", id, n)
		}
	}
	if len(handled) > len(expected) {
		p.world.fail("the projection has handled %d events of %d", len(handled), len(expected))
	}
}
