package shadow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/render/jsondiff"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// call is a call of the handler with its result.
type call struct {
	Message
	recorded recorded
	result   Result
	err      error
}

// compareChunk compares some messages, and adds them to the report.
func (r *run) compareChunk(ctx context.Context, events []schemas.Event) error {
	reports, err := r.readReports(ctx, events)
	if err != nil {
		return err
	}
	if err := r.readBodies(ctx, events); err != nil {
		return err
	}
	report := r.state.Report.clone()
	var calls []*call
	for _, e := range events {
		report.Messages++
		switch queues := reports[e.Fingerprint]; {
		case len(queues) == 0:
			report.LeftOut[NoOutcome]++
		case e.BodyIn != schemas.BodyHere:
			report.LeftOut[NoBody]++
		case e.Envelope.Redacted:
			report.LeftOut[Redacted]++
		default:
			for _, queue := range slices.Sorted(maps.Keys(queues)) {
				calls = append(calls, &call{Message: Message{e.Envelope, e.Fingerprint, e.EventID, queue, queues[queue].Replay}, recorded: queues[queue]})
			}
		}
	}
	if err := r.callAll(ctx, calls); err != nil {
		return err
	}
	if err := r.addOutcomes(ctx, &report, calls, reports); err != nil {
		return err
	}
	r.state.Report = report
	return nil
}

// callAll calls the handler for all messages.
func (r *run) callAll(ctx context.Context, calls []*call) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.Concurrency)
	for _, c := range calls {
		if err := r.limiter.Wait(ctx); err != nil {
			return cmp.Or(group.Wait(), context.Cause(ctx)) // the former ends ctx
		}
		group.Go(func() error { return r.call(ctx, c) })
	}
	return group.Wait()
}

const (
	maxTries   = 5
	firstPause = time.Second
)

// call calls the handler, and again while the candidate is unavailable.
func (r *run) call(ctx context.Context, c *call) error {
	attempt := retry.Attempt{Number: 1, Queue: c.Queue, Fingerprint: c.Fingerprint, Replay: c.Replay}
	handling := context.WithValue(retry.ContextWithAttempt(schemas.NewContext(ctx, c.Envelope), attempt), shadowKey{}, true)
	var unavailable *retry.UnavailableError
	for tries, pause := 1, firstPause; ; tries, pause = tries+1, 2*pause {
		message := c.Message
		message.Envelope = message.Envelope.Clone() // which the handler may change
		c.result, c.err = r.Handler(handling, message)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.As(c.err, &unavailable):
			return nil
		case tries == maxTries:
			return fmt.Errorf("the candidate was unavailable %d times for message %s: %w", tries, c.name(), c.err)
		}
		if err := backoff.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (c *call) name() string {
	if id := c.Envelope.Properties.MessageID; id != "" {
		return id
	}
	return c.Fingerprint
}

// addOutcomes adds the results of calls to a report.
func (r *run) addOutcomes(ctx context.Context, report *Report, calls []*call, reports map[string]map[string]recorded) error {
	var listed []Message
	for _, c := range calls {
		if c.err == nil && c.recorded.isHandled() && !c.result.Unlisted {
			listed = append(listed, c.Message)
		}
	}
	published, err := r.readChildren(ctx, listed)
	if err != nil {
		return err
	}
	for _, c := range calls {
		report.Compared++
		if d, differs := c.difference(); differs {
			report.add(d, c)
			continue
		}
		if c.err != nil {
			report.Same++
			continue
		}
		own, isKnown := published[c.Fingerprint].of(c.Message, reports[c.Fingerprint])
		if c.result.Unlisted || !isKnown {
			report.Unlisted++
			report.Same++
			continue
		}
		d, differs, err := r.compareOutgoing(own, c.result.Outgoing)
		switch {
		case err != nil:
			return fmt.Errorf("comparing the outgoing messages of message %s: %w", c.name(), err)
		case differs:
			report.add(d, c)
		default:
			report.Same++
		}
	}
	return nil
}

// failure is an error as it is compared.
type failure struct{ kind, class, group string }

func (f failure) String() string {
	text := f.kind + ": " + f.group
	if f.class != retry.DefaultClass {
		text += " (class " + f.class + ")"
	}
	return text
}

// difference returns how the outcome differs from the recorded one.
func (c *call) difference() (d difference, differs bool) {
	before := failure{c.recorded.ErrorType, cmp.Or(c.recorded.Class, retry.DefaultClass), withoutAddress(c.recorded.ErrorGroup)}
	var after failure
	d = difference{recorded: string(c.recorded.Action), candidate: string(schemas.Handled)}
	if c.err != nil {
		text := schemas.Failure{Message: c.err.Error()}
		after = failure{retry.TypeOf(c.err), retry.ClassOf(c.err), withoutAddress(text.ErrorGroup(c.Queue, c.Envelope.Exchange))}
		d.candidate = "failed, " + after.String()
	}
	if !c.recorded.isHandled() {
		d.recorded += ", " + before.String()
	}
	switch {
	case c.err != nil && c.recorded.isHandled():
		d.kind, d.detail = Fails, after.String()
	case c.err == nil && !c.recorded.isHandled():
		d.kind, d.detail = Recovers, before.String()
	case c.err != nil && after != before:
		d.kind, d.detail = FailsDifferently, after.String()
	default:
		return d, false
	}
	return d, true
}

// withoutAddress removes the address of a service from the message of its response: the
// candidate has another one.
func withoutAddress(group string) string {
	return regexp.MustCompile(`^(sending to )?\S+( answered |: )`).ReplaceAllString(group, "${1}service$2")
}

// maxDifferences bounds the differences of one message in an example.
const maxDifferences = 10

// compareOutgoing compares outgoing messages: those with the same exchange, routing key and
// type in their order.
func (r *run) compareOutgoing(before, after []schemas.Envelope) (d difference, differs bool, err error) {
	rest := map[string][]schemas.Envelope{}
	for _, e := range after {
		rest[route(e)] = append(rest[route(e)], e)
	}
	note := func(detail string, found ...string) {
		if d.detail == "" {
			d = difference{kind: Outgoing, detail: detail, recorded: fmt.Sprintf("%d outgoing", len(before)), candidate: fmt.Sprintf("%d outgoing", len(after))}
		}
		d.found = append(d.found, found...)
	}
	for _, e := range before {
		to := route(e)
		if len(rest[to]) == 0 {
			note("missing to "+to, "missing: "+to)
			continue
		}
		found, err := r.compareMessages(e, rest[to][0])
		if err != nil {
			return d, false, err
		}
		if rest[to] = rest[to][1:]; len(found) > 0 {
			note(anyIndex(found[0].Path) + " of " + to)
		}
		for _, f := range found {
			note("", f.String())
		}
	}
	for _, to := range slices.Sorted(maps.Keys(rest)) {
		for range rest[to] {
			note("additional to "+to, "additional: "+to)
		}
	}
	d.found = d.found[:min(len(d.found), maxDifferences)]
	return d, d.kind != "", nil
}

func route(e schemas.Envelope) string {
	text := fmt.Sprintf("%s %s", e.Exchange, e.RoutingKey)
	if e.Properties.Type != "" {
		text += " (" + e.Properties.Type + ")"
	}
	return text
}

// anyIndex replaces the indices of a path, so that the differences of all elements are one.
func anyIndex(path string) string {
	return regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(path, "[]")
}

func (r *run) compareMessages(before, after schemas.Envelope) ([]jsondiff.Difference, error) {
	a, err := r.comparable(before)
	if err != nil {
		return nil, err
	}
	b, err := r.comparable(after)
	if err != nil {
		return nil, err
	}
	return jsondiff.Compare(a, b, r.ignored, maxDifferences), nil
}

// comparable returns the members of a message that are compared: properties but the type are
// of one publish.
func (r *run) comparable(e schemas.Envelope) (map[string]any, error) {
	text, err := transform.JSON(e)
	if err != nil {
		return nil, err
	}
	value, err := jsondiff.Decode(text)
	if err != nil {
		return nil, err
	}
	members := value.(map[string]any)
	delete(members, "properties")
	headers := members["headers"].(map[string]any)
	for _, name := range []string{r.Causation, "traceparent", "tracestate"} {
		delete(headers, name)
	}
	return members, nil
}
