package replayer

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// converter makes the messages that a job sends.
type converter struct {
	job     *Job
	isOwn   func(name string) bool // whether an exchange or queue is Watership's
	program *transform.Program     // nil: none
	apply   func(ctx context.Context, p *transform.Program, e schemas.Envelope) (changed schemas.Envelope, keep bool, err error)
}

func newConverter(cfg Config, job *Job) (c converter, err error) {
	c = converter{job: job, isOwn: cfg.Topology.Owns, apply: applyHere}
	if cfg.Programs != nil {
		c.apply = cfg.Programs.Apply
	}
	if job.Transform != "" {
		c.program, err = transform.Parse(job.Transform)
	}
	return c, err
}

func applyHere(ctx context.Context, p *transform.Program, e schemas.Envelope) (changed schemas.Envelope, keep bool, err error) {
	return p.Apply(ctx, e)
}

// convert returns the message that the job sends for the message of an event; keep is false
// if the program of the job leaves it out. A *transform.Error concerns this message only.
func (c converter) convert(ctx context.Context, e schemas.Event) (sent schemas.Envelope, keep bool, err error) {
	before := c.job.message(e.Envelope)
	if c.program == nil || e.BodyIn != schemas.BodyHere {
		return before, true, nil
	}
	sent, keep, err = c.apply(ctx, c.program, before)
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

// message returns the message that the job sends for an original one, before its program.
func (j Job) message(original schemas.Envelope) schemas.Envelope {
	sent := j.Target.address(original)
	if j.DropReplyTo {
		sent.Properties.ReplyTo = ""
	}
	return j.Changes.Apply(sent)
}
