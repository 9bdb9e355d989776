package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/replayer"
)

// Action is an action of the operator of a run.
type Action struct {
	At     time.Duration // after the first message
	For    time.Duration
	Kind   ActionKind
	Queue  string
	Number int // of messages
}

// String describes the action.
func (a Action) String() string {
	return fmt.Sprintf("%s %s of %s (for %s, %d messages)", a.At, a.Kind, a.Queue, a.For, a.Number)
}

// ActionKind is the kind of an action.
type ActionKind string

// The kinds of actions.
const (
	PauseRoute ActionKind = "a pause"
	Hasten     ActionKind = "the next attempts at once"
	Discard    ActionKind = "a discard of failures"
	Replay     ActionKind = "a replay"

	Postpone          ActionKind = "a later attempt"
	Cancel            ActionKind = "no further attempt"
	PauseSubscription ActionKind = "a pause of the subscription"
)

func newActions(seed uint64) (actions []Action) {
	random := randomness(seed, "actions")
	at := 20 * time.Second
	for range random.IntN(5) {
		at += time.Duration(random.IntN(50_000)) * time.Millisecond
		actions = append(actions, newAction(random, at))
	}
	return actions
}

func newAction(random *rand.Rand, at time.Duration) Action {
	return Action{
		At: at, For: time.Duration(1000+random.IntN(30_000)) * time.Millisecond,
		Kind:  []ActionKind{PauseRoute, Hasten, Discard, Replay, Replay}[random.IntN(5)],
		Queue: []string{plainQueue, orderedQueue}[random.IntN(2)], Number: 1 + random.IntN(20),
	}
}

// operator is a person who runs commands, each of them again until it succeeds, in a process that also runs
// jobs.
type operator struct {
	world *world
	clock clock

	mu      sync.Mutex // guards the fields below
	current *operatorLife
	lives   int
}

// operatorLife is the time between a start and an end of the operator's process.
type operatorLife struct {
	*life
	set   *operation.Set
	end   context.CancelFunc
	ended chan struct{} // closed when no job runs any more
}

// newCommand starts a process of an operator.
func newCommand(ctx context.Context, w *world, name string) (*system.System, *life, error) {
	l := &life{name: name, world: w, link: &storeLink{world: w, name: name}}
	settings, err := config.Load(config.Sources{Environ: w.environ})
	if err != nil {
		return nil, l, err
	}
	sys, err := system.Start(ctx, system.Config{
		Settings: settings, Name: name, Logger: slog.New(logOf{l}), Dial: l.dial, DialTarget: l.dialTarget,
		OpenStore: func(context.Context) (system.ClosableStore, error) { return newProcessStore(w.store, l.link), nil },
	})
	return sys, l, err
}

func newOperator(ctx context.Context, w *world, c clock) (o *operator, err error) {
	o = &operator{world: w, clock: c}
	c.run(func() { err = o.start(ctx) })
	return o, err
}

// start starts the process of the operator, until ctx ends.
func (o *operator) start(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lives++
	name := "operator"
	if o.lives > 1 {
		name = fmt.Sprint("operator.", o.lives)
	}
	ctx, end := context.WithCancel(ctx)
	sys, l, err := newCommand(ctx, o.world, name)
	if err != nil {
		end()
		return err
	}
	now := &operatorLife{life: l, set: operation.NewLocal(), end: end, ended: make(chan struct{})}
	routes.Implement(now.set, routes.Service{System: sys, Handlers: func() pipeline.Config { return routes.Handlers(sys) }})
	failures.Implement(now.set, sys)
	subscriptions.Implement(now.set, sys)
	waiting.Implement(now.set, sys)
	jobs := replays.NewRunner(sys)
	replays.Implement(now.set, sys, jobs)
	go func() {
		defer close(now.ended)
		jobs.Run(ctx, slog.New(logOf{l}))
		_ = sys.Close()
	}()
	o.current = now
	return nil
}

// now returns the life of the process.
func (o *operator) now() *operatorLife {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current
}

func (o *operator) operations() *operation.Set { return o.now().set }

// meet lets the process end as by SIGKILL, where the next one starts at once, or lets it meet a fault of the
// store.
func (o *operator) meet(ctx context.Context, f Fault) {
	now := o.now()
	switch f.Kind {
	case KillOperator:
		now.die()
		now.link.kill()
		now.end()
		o.world.afterLife(now.ended)
		o.clock.run(func() {
			if err := o.start(ctx); err != nil {
				o.world.fail("the operator's process does not start again: %v", err)
			}
		})
	case OperatorStoreRefuses:
		now.link.meet(refusesRequests, f.For)
	case OperatorStoreLoses:
		now.link.meet(losesAnswers, f.For)
	}
}

// close ends the process, and returns after its jobs.
func (o *operator) close() {
	now := o.now()
	now.end()
	<-now.ended
}

// act carries out an action, and returns when it is complete.
func (o *operator) act(ctx context.Context, a Action) {
	o.world.note("operator", a.String())
	ctx = access.NewContext(ctx, access.AsOperator("operator"))
	switch a.Kind {
	case PauseRoute:
		o.pause(ctx, a)
	case Hasten:
		o.hasten(ctx, a)
	case Discard:
		in := failures.DiscardInput{}
		in.Body.Query, in.Body.Reason = "watership.attempt >= 1", "the simulation"
		o.until(a, func() error {
			_, err := failures.DiscardFailures.Call(ctx, o.operations(), in)
			return err
		})
	case Replay:
		o.replay(ctx, a)
	case Postpone, Cancel:
		o.decide(ctx, a)
	case PauseSubscription:
		o.pauseSubscription(ctx, a)
	}
}

// until does something again and again until it has no error, and returns false if it never does.
func (o *operator) until(a Action, do func() error) bool {
	for n := 0; ; n++ {
		err := do()
		if err == nil {
			return true
		}
		o.world.note("operator", fmt.Sprintf("%s: %v", a.Kind, err))
		if n == 50 {
			o.world.fail("operator: %s does not succeed: %v", a, err)
			return false
		}
		time.Sleep(5 * time.Second)
	}
}

// add adds a queue whose consumers reject messages.
func (o *operator) add(ctx context.Context, queue string) {
	ctx = access.NewContext(ctx, access.AsOperator("operator"))
	o.until(Action{Kind: "adding " + ActionKind(queue)}, func() error {
		_, err := routes.AddRoute.Call(ctx, o.operations(), routes.PolicyInput{Queue: queue})
		return err
	})
}

// subscribe creates the subscription of a receiver.
func (o *operator) subscribe(ctx context.Context, name string) {
	ctx = access.NewContext(ctx, access.AsOperator("operator"))
	in := subscriptions.CreateInput{}
	in.Body.Name, in.Body.From = name, "start"
	if in.Body.Query, _ = queryOf(name); name == slowQueue {
		backlog := 5
		in.Body.Queue, in.Body.MaxBacklog = name, &backlog
	} else {
		in.Body.URL = refusingURL
	}
	o.until(Action{Kind: "subscribing"}, func() error {
		_, err := subscriptions.CreateSubscription.Call(ctx, o.operations(), in)
		return err
	})
}

func (o *operator) pauseSubscription(ctx context.Context, a Action) {
	in := subscriptions.PauseInput{NameInput: subscriptions.NameInput{Name: a.Queue}}
	in.Body.Reason = "the simulation"
	from := time.Now()
	o.until(a, func() error {
		_, err := subscriptions.PauseSubscription.Call(ctx, o.operations(), in)
		return err
	})
	time.Sleep(a.For)
	o.until(a, func() error {
		_, err := subscriptions.ResumeSubscription.Call(ctx, o.operations(), subscriptions.ActInput{NameInput: in.NameInput})
		return err
	})
	o.world.receivers.heldBetween(a.Queue, from, time.Now().Add(pauseDelay))
}

func (o *operator) pause(ctx context.Context, a Action) {
	in := routes.PauseInput{Queue: a.Queue}
	in.Body.Reason = "the simulation"
	o.until(a, func() error {
		_, err := routes.PauseRoute.Call(ctx, o.operations(), in)
		return err
	})
	paused := time.Now()
	time.Sleep(a.For / 2)
	if a.Number%2 == 0 {
		o.world.reload()
	}
	time.Sleep(a.For / 2)
	o.world.oracle.pausedBetween(a.Queue, paused, time.Now())
	o.until(a, func() error {
		_, err := routes.ResumeRoute.Call(ctx, o.operations(), routes.ResumeRouteInput{Queue: a.Queue})
		return err
	})
	o.world.note("operator", "has resumed "+a.Queue)
}

// startRival lets another process run a job that may run already. wait returns when that process has ended.
func (o *operator) startRival(ctx context.Context, job string, a Action) (wait func()) {
	var running sync.WaitGroup
	running.Go(func() {
		time.Sleep(time.Duration(a.Number)*150*time.Millisecond + time.Duration(o.world.nextOffset()))
		sys, l, err := newCommand(ctx, o.world, "rival")
		if err != nil {
			o.world.fail("a second operator: %v", err)
			return
		}
		defer func() { _ = sys.Close() }()
		runs, err := replays.Replayer(ctx, sys)
		if err == nil {
			_, err = runs.Run(ctx, job, replayer.RunOptions{})
		}
		o.world.note(l.name, fmt.Sprintf("has run job %s: %v", job, err))
	})
	return running.Wait
}

func (o *operator) hasten(ctx context.Context, a Action) {
	in := waiting.DecideInput{}
	in.Body.Query, in.Body.Action, in.Body.Reason = "queue: "+a.Queue, waiting.Now, "the simulation"
	from := time.Now()
	o.until(a, func() error {
		_, err := waiting.DecideWaiting.Call(ctx, o.operations(), in)
		return err
	})
	o.world.oracle.hastenedBetween(a.Queue, from, time.Now())
}

// replay replays messages that have an outcome, to where they came from, and resumes the job until
// it is done.
func (o *operator) replay(ctx context.Context, a Action) {
	ids := o.world.oracle.finishedBefore(a.Queue, time.Now().Add(-time.Minute), a.Number)
	if len(ids) == 0 {
		return
	}
	in := replays.StartInput{}
	in.Key = fmt.Sprint("replay at ", a.At)
	in.Body.IDs, in.Body.Target, in.Body.Reason = ids, replays.Target{Kind: string(replayer.ToOrigin)}, "the simulation"
	in.Body.Again, in.Body.UncheckedRoutes, in.Body.Rate = true, true, float64(a.Number%7)
	in.Body.StopAfter = max(0, a.Number%5-2) // a canary
	edit := ""
	if drawn(o.world.seed, in.Key, "edit")%3 == 0 {
		edit = fmt.Sprint("edit ", o.world.nextOffset())
		in.Body.Changes.SetHeaders = []string{editHeader + "=" + edit}
	}
	began := time.Now()
	var job replays.Job
	if !o.until(a, func() error {
		out, err := replays.StartReplay.Call(ctx, o.operations(), in)
		job = out.Body
		return err
	}) {
		return
	}
	if drawn(o.world.seed, in.Key)%2 == 0 { // as if the API had lost its answer
		first := job.ID
		if !o.until(a, func() error {
			out, err := replays.StartReplay.Call(ctx, o.operations(), in)
			job = out.Body
			return err
		}) {
			return
		}
		if job.ID != first {
			o.world.fail("operator: the request of job %s, sent again, has started job %s", first, job.ID)
		}
	}
	if a.Number%2 == 0 {
		defer o.startRival(ctx, job.ID, a)()
	}
	for n := 0; job.State != replayer.Done; n++ {
		if n == 300 {
			o.world.fail("operator: job %s is %s (running: %t, it may be resumed: %t): %s", job.ID, job.State, job.Running, job.CanResume, job.Problem)
			return
		}
		time.Sleep(2 * time.Second)
		if !o.until(a, func() error {
			out, err := replays.GetReplay.Call(ctx, o.operations(), replays.JobInput{ID: job.ID})
			if err == nil && out.Body.CanResume && !out.Body.Running {
				o.world.note("operator", fmt.Sprintf("resumes job %s: %s", job.ID, out.Body.Problem))
				out, err = replays.ResumeReplay.Call(ctx, o.operations(), replays.ResumeInput{ID: job.ID})
			}
			if err == nil {
				job = out.Body
			}
			return err
		}) {
			return
		}
	}
	o.world.note("operator", fmt.Sprintf("job %s has sent %d of %d messages, and failed for %d", job.ID, job.Sent, job.Total, job.Failed))
	o.world.oracle.replayedBy(job, sending{job.ID, ids, edit, began, time.Now()})
}
