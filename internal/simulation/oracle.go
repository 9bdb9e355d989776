package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	watermill "github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// policy is the policy of all routes.
func policy() *retry.Policy {
	return &retry.Policy{Delays: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}}
}

const attempts = 4 // of policy

// message is a message that a publisher sent.
type message struct {
	id, queue, key string
	confirmed      bool
	sent           time.Time
	acknowledged   time.Time // if it is confirmed
}

// outcome is the result of an attempt.
type outcome int

const (
	fails outcome = iota
	succeeds
	failsForGood
)

// call is a call of a handler.
type call struct {
	life    *life
	id      string
	attempt int
	begun   time.Time
	ended   time.Time // zero: it has not returned, or its process was killed before
	outcome outcome
	outage  bool // of the service, so that it fails
	edit    string
}

// oracle knows the truth from outside: the messages that were published and confirmed, and the
// calls of handlers.
type oracle struct {
	world   *world
	outages outages
	faults  *faultTimes

	mu        sync.Mutex // guards the fields below
	messages  map[string]*message
	sent      []string // ids, in the order of publishing
	calls     []*call
	finished  map[string]time.Time // by id: an attempt had a final outcome in a process that lived on
	paused    []span
	hastened  []span
	replayed  map[string]map[string]bool // by job, ids of the messages
	replays   []sending
	displaced map[string]bool // messages in order whose places the broker has refused
	hadOutage map[string]bool // messages with an attempt in an outage
	decisions decisions
	losses    losses
	plan      Plan
}

// span is a time in which something holds for a queue.
type span struct {
	queue    string
	from, to time.Time
}

func (s span) has(queue string, at time.Time) bool {
	return s.queue == queue && !at.Before(s.from) && !at.After(s.to)
}

func newOracle(w *world, plan Plan) *oracle {
	o := &oracle{
		world: w, plan: plan, outages: outagesOf(plan, w.began), faults: faultTimesOf(plan, w.began), messages: map[string]*message{}, finished: map[string]time.Time{},
		replayed: map[string]map[string]bool{}, hadOutage: map[string]bool{}, displaced: map[string]bool{},
	}
	o.losses = newLosses(o)
	o.decisions = decisions{oracle: o, cancelled: map[string]time.Time{}, underWay: map[string]int{}}
	return o
}

// pausedBetween says that processes without a fault must not begin messages of a queue.
func (o *oracle) pausedBetween(queue string, from, to time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paused = append(o.paused, span{queue, from, to})
}

// pauseDelay is the time in which all processes know of a pause.
const pauseDelay = 5 * time.Second

// hastenedBetween says that messages of a queue may be early.
func (o *oracle) hastenedBetween(queue string, from, to time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hastened = append(o.hastened, span{queue, from, to.Add(5 * time.Second)})
}

// finishedBefore returns ids of messages of a queue with an outcome, the newest ones.
func (o *oracle) finishedBefore(queue string, end time.Time, n int) (ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range slices.Backward(o.sent) {
		_, cancelled := o.decisions.cancelled[id]
		if at, finished := o.finished[id]; len(ids) < n && finished && !cancelled && at.Before(end) && o.messages[id].queue == queue && !o.losses.copies[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// replayedBy adds a job that is done, and the ids that it had to send: all but those for which it says
// that the broker refused them.
func (o *oracle) replayedBy(job replays.Job, s sending) {
	if job.Sent+job.Failed != len(s.ids) || len(job.Failures) != job.Failed {
		o.world.fail("job %s of %d messages has sent %d, and failed for %d: %s", job.ID, len(s.ids), job.Sent, job.Failed, job.Problem)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replays = append(o.replays, s)
	o.replayed[job.ID] = map[string]bool{}
	for _, id := range s.ids {
		o.replayed[job.ID][id] = true
	}
	for _, failed := range job.Failures {
		delete(o.replayed[job.ID], failed.MessageID)
	}
}

func (o *oracle) publishes(m message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m.sent = time.Now()
	o.messages[m.id] = &m
	o.sent = append(o.sent, m.id)
}

func (o *oracle) confirms(id string) {
	o.world.note("publisher", id+" is confirmed")
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages[id].confirmed, o.messages[id].acknowledged = true, time.Now()
}

// confirmed returns the number of messages whose publishing was confirmed.
func (o *oracle) confirmed() (n int) {
	for _, m := range o.messages {
		if m.confirmed {
			n++
		}
	}
	return n
}

// decided returns the outcome of an attempt, which is the same each time.
func (o *oracle) decided(id string, attempt int) outcome {
	switch x := drawn(o.world.seed, id, attempt) / 7 % 100; {
	case x < 4:
		return failsForGood
	case x < 30:
		return fails
	}
	return succeeds
}

// expected returns whether the message ends as handled, and after which attempt.
func (o *oracle) expected(id string) (handled bool, last int) {
	switch {
	case o.world.endsProcess(id, o.messages[id].queue):
		return false, 1
	case o.hadOutage[id]:
		return true, attempts // at most, and it may have none left
	}
	for attempt := 1; attempt <= attempts; attempt++ {
		switch o.decided(id, attempt) {
		case succeeds:
			return true, attempt
		case failsForGood:
			return false, attempt
		}
	}
	return false, attempts
}

// handler returns the handler of a queue.
func (o *oracle) handler(l *life, queue string) watermill.HandlerFunc {
	return func(m *watermill.Message) ([]*watermill.Message, error) {
		c, lives := o.attempt(l, queue, string(m.Payload), m.Metadata.Get(editHeader), retry.AttemptFrom(m.Context()).Number)
		switch {
		case !lives:
			return nil, errKilled
		case c.outage:
			return nil, fmt.Errorf("the service does not answer: %w", context.DeadlineExceeded)
		case c.outcome == succeeds:
			return nil, nil
		case c.outcome == failsForGood:
			return nil, retry.Permanent(errors.New("the simulation fails it for good"))
		}
		return nil, errors.New("the simulation fails it")
	}
}

// attempt handles a message in a process, which takes a time. It does not count if the process no longer
// lives.
func (o *oracle) attempt(l *life, queue, id, edit string, number int) (c *call, lives bool) {
	if l.isDead() {
		return nil, false
	}
	c = &call{life: l, id: id, edit: edit, attempt: number, begun: time.Now()}
	o.begin(c, queue)
	x := drawn(o.world.seed, id, number)
	time.Sleep(time.Duration(x%60)*time.Millisecond + time.Duration(x%100_003)*time.Nanosecond)
	if l.isDead() {
		return nil, false
	}
	if o.world.endsProcess(id, queue) {
		l.crash()
		return nil, false
	}
	c.outcome, c.outage = o.decided(id, number), o.outages.have(queue, time.Now())
	if c.outage {
		c.outcome = fails
	}
	o.end(c)
	return c, true
}

func (o *oracle) begin(c *call, queue string) {
	o.world.note(c.life.name, fmt.Sprintf("handles %s, attempt %d", c.id, c.attempt))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, c)
	m, known := o.messages[c.id]
	switch {
	case !known:
		o.world.fail("%s handles %q, which nobody published", c.life.name, c.id)
	case m.queue != queue:
		o.world.fail("%s handles %s of queue %s at queue %s", c.life.name, c.id, m.queue, queue)
	case queue == orderedQueue:
		o.checkOrder(c, m)
	}
}

// checkOrder reports an earlier message of the key without a final outcome. o.mu is held.
func (o *oracle) checkOrder(c *call, m *message) {
	for _, id := range o.sent {
		if id == c.id {
			return
		}
		if earlier := o.messages[id]; earlier.queue == m.queue && earlier.key == m.key && earlier.confirmed && o.finished[id].IsZero() && !o.losses.isLost(id) && !o.displaced[id] {
			o.world.fail("order: %s begins %s before %s has an outcome", c.life.name, c.id, id)
			return
		}
	}
}

func (o *oracle) end(c *call) {
	o.world.note(c.life.name, fmt.Sprintf("ends %s, attempt %d: %d", c.id, c.attempt, c.outcome))
	o.mu.Lock()
	defer o.mu.Unlock()
	c.ended = time.Now()
	if c.outage {
		o.hadOutage[c.id] = true
	}
	if c.outcome != fails || c.attempt >= attempts {
		o.finished[c.id] = time.Now()
	}
	select {
	case c.life.returned <- struct{}{}:
	default:
	}
}

// unfinished returns the messages and queues that have not come to rest yet.
func (o *oracle) unfinished() (texts []string) {
	for queue, n := range o.world.broker.QueueLengths("/") {
		if n > o.losses.leftIn(queue) {
			texts = append(texts, fmt.Sprintf("queue %s has %d messages", queue, n))
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range o.sent {
		if o.messages[id].confirmed && o.finished[id].IsZero() && !o.losses.isLost(id) {
			texts = append(texts, fmt.Sprintf("%s has no outcome", id))
		}
	}
	slices.Sort(texts)
	return texts
}

// record counts the events that the store has of a message.
type record struct {
	published         map[string]int // by job of a replay; "": the message as it was published first
	discarded         int
	handled, poisoned int
	replayed          map[string]int // by job
}

// check compares the store and the calls with the truth.
func (o *oracle) check(ctx context.Context) {
	records, opened, dropped := map[string]*record{}, []span{}, []span{}
	for e, err := range o.world.store.Events(ctx, eventstore.Selection{WithoutBody: true}) {
		if err != nil {
			o.world.fail("reading the store: %v", err)
			return
		}
		r := records[e.Envelope.Properties.MessageID]
		if r == nil {
			r = &record{published: map[string]int{}, replayed: map[string]int{}}
			records[e.Envelope.Properties.MessageID] = r
		}
		switch e.Action {
		case schemas.Published:
			r.published[e.State.Replay]++
		case schemas.Handled:
			r.handled++
		case schemas.Poisoned:
			r.poisoned++
		case schemas.Discarded:
			r.discarded++
		case schemas.Replayed:
			r.replayed[e.State.Replay]++
		case schemas.Dropped:
			dropped = append(dropped, span{queue: e.Queue, from: e.State.Time})
		case schemas.Paused:
			if e.State.Failure.Type != pause.ByOperator {
				opened = append(opened, span{e.Queue, e.FirstFailed, e.State.Time})
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range o.sent {
		r := records[id]
		if r == nil {
			r = &record{}
		}
		o.checkRecord(id, *r)
	}
	o.checkAttempts()
	o.checkReplays(records)
	checkEdits(o)
	o.checkPauses()
	o.decisions.check()
	o.losses.checkDropped(dropped)
	checkTwice(o)
	checkRefunds(o, opened)
}

// checkReplays reports messages that a job has not sent, or more than once, and those that no
// handler got as often as they were sent.
func (o *oracle) checkReplays(records map[string]*record) {
	begun := map[string]int{}
	for _, c := range o.calls {
		if c.attempt == 1 {
			begun[c.id]++
		}
	}
	sent := map[string]int{}
	for _, s := range o.replays {
		job, once := s.job, o.faults.spare(s.began, s.ended) // a message of which the event was lost is sent again
		for _, id := range slices.Sorted(maps.Keys(o.replayed[job])) {
			if o.losses.mayLack(s, id) {
				continue
			}
			sent[id]++
			if replayed, published := records[id].replayed[job], records[id].published[job]; replayed != 1 || published == 0 || published > 1 && once {
				o.world.fail("%s has %d replayed and %d published events of job %s", id, replayed, published, job)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sent)) {
		if begun[id] < 1+sent[id] {
			o.world.fail("%s was replayed %d times, and a handler has got it %d times", id, sent[id], begun[id])
		}
	}
}

// checkPauses reports messages that began in a pause while no process had a fault.
func (o *oracle) checkPauses() {
	for _, p := range o.paused {
		for _, other := range o.paused { // the first resume ends all pauses of a queue
			if other.queue == p.queue && other.to.After(p.from) && other.to.Before(p.to) {
				p.to = other.to
			}
		}
		p.from = p.from.Add(pauseDelay)
		if !o.faults.spare(p.from, p.to) {
			continue
		}
		for _, c := range o.calls {
			if p.has(o.messages[c.id].queue, c.begun) {
				o.world.fail("%s begins attempt %d of %s in a pause", c.life.name, c.attempt, c.id)
			}
		}
	}
}

// delay returns the delay after an attempt that failed.
func (o *oracle) delay(id string, attempt int) time.Duration {
	if o.messages[id].queue == foreignQueue {
		return o.foreignDelay(id, attempt)
	}
	return policy().Delays[attempt-1]
}

func (o *oracle) checkRecord(id string, r record) {
	m := o.messages[id]
	if !m.confirmed && r.published[""] == 0 && r.handled+r.poisoned == 0 {
		return // it never arrived
	}
	if n := r.published[""]; n > 1 || n == 0 && !o.losses.copies[id] {
		o.world.fail("%s has %d published events", id, n)
	}
	if o.losses.isLost(id) || o.losses.events[id] || o.decisions.checkRecord(id, r) {
		return
	}
	switch handled, last := o.expected(id); {
	case m.queue == foreignQueue && handled && last == 1 && o.isSilent(id) && r.poisoned == 0:
		// its consumer only acknowledges it
	case o.hadOutage[id] && r.handled+r.poisoned > 0: // the attempts of the outage may count
	case handled && (r.handled == 0 || r.poisoned > 0), !handled && (r.poisoned == 0 || r.handled > 0):
		o.world.fail("%s has %d handled and %d poisoned events, and must be handled: %t", id, r.handled, r.poisoned, handled)
	}
}

// checkAttempts reports attempts beyond the policy, and those that began before the delay after
// the one before was over.
func (o *oracle) checkAttempts() {
	byID := map[string][]*call{}
	for _, c := range o.calls {
		byID[c.id] = append(byID[c.id], c)
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		_, last := o.expected(id)
		for _, c := range byID[id] {
			if c.attempt > last {
				o.world.fail("%s has attempt %d, and ends with attempt %d", id, c.attempt, last)
			}
			hastened := slices.ContainsFunc(o.hastened, func(s span) bool { return s.has(o.messages[id].queue, c.begun) })
			if c.attempt > 1 && !hastened && !o.decisions.mayBeEarly(c) && !slices.ContainsFunc(byID[id], func(before *call) bool {
				return before.attempt == c.attempt-1 && !before.ended.IsZero() && !c.begun.Before(before.ended.Add(o.delay(id, before.attempt)))
			}) {
				o.world.fail("attempt %d of %s is early", c.attempt, id)
			}
		}
	}
}
