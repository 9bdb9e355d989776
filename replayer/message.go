package replayer

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// converter makes the messages that a job sends.
type converter struct {
	job      *Job
	isOwn    func(name string) bool // whether an exchange or queue is Watership's
	program  *transform.Program     // nil: none
	programs *transform.Processes
	opener   privacy.Opener // nil: redacted messages are not sent
}

// maxAhead bounds the messages that go through the program in one request.
const maxAhead = 50

func newConverter(cfg Config, job *Job) (c converter, err error) {
	c = converter{job: job, isOwn: cfg.Topology.Owns, programs: cfg.Programs, opener: cfg.Opener}
	if job.Transform != "" {
		c.program, err = transform.Parse(job.Transform)
	}
	return c, err
}

// convert returns the message that the job sends for the first of some candidates; keep is
// false if the program of the job leaves it out. A *transform.Error concerns this message only.
// The next candidates go through the program with it, and keep their results for the next
// calls, since a request for each of them would take longer.
func (c converter) convert(ctx context.Context, next []candidate) (sent schemas.Envelope, keep bool, err error) {
	e := next[0].event
	before := c.job.message(e.Envelope)
	if c.program == nil || e.BodyIn != schemas.BodyHere {
		return before, true, nil
	}
	if next[0].result == nil {
		c.applyToAll(ctx, next)
	}
	sent, keep, err = next[0].result.Message, next[0].result.Keep, next[0].result.Err
	next[0].result = nil // a program may make a large message of a small one
	if err != nil || !keep {
		return before, keep, err
	}
	isMoved := sent.Exchange != before.Exchange || sent.RoutingKey != before.RoutingKey
	switch to := c.job.Target.routeOf(e, sent); {
	case isMoved && to.Queue != "":
		err = &transform.Error{Problem: "it changes the exchange or the routing key of a message that is sent to " + to.String()}
	case isMoved && to.leadsTo(c.isOwn):
		err = &transform.Error{Problem: fmt.Sprintf("it sends to %s, which is Watership's own", to)}
	}
	return sent, keep, err
}

// applyToAll runs the program for the first candidate, and for the next ones that may need it.
func (c converter) applyToAll(ctx context.Context, next []candidate) {
	var page []*candidate
	var messages []schemas.Envelope
	for i := range next {
		if i == 0 || next[i].leftOut == "" && next[i].event.BodyIn == schemas.BodyHere && !next[i].event.Envelope.Redacted && next[i].result == nil {
			page = append(page, &next[i])
			messages = append(messages, c.job.message(next[i].event.Envelope))
		}
		if len(page) == maxAhead {
			break
		}
	}
	for i, result := range c.programs.Apply(ctx, c.program, messages...) {
		page[i].result = &result
	}
}

// message returns the message that the job sends for an original one, before its program.
func (j Job) message(original schemas.Envelope) schemas.Envelope {
	sent := j.Target.address(original)
	if j.DropReplyTo {
		sent.Properties.ReplyTo = ""
	}
	return j.Changes.Apply(sent)
}
