package replays

import (
	"context"
	"net/url"
	"time"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/template/messagefield"
	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// Effects are the messages and requests that messages as in a plan caused before. The handlers of services may have further
// effects, of which nothing is recorded.
type Effects struct {
	Sampled    int       `json:"sampled" doc:"Messages like those of the plan that were handled before, whose recorded effects were read: the newest, at most 50 for each of the 5 most frequent routes"`
	Published  []Effect  `json:"published" nullable:"false" doc:"Messages that handlers published, and the handlers of those messages, by exchange and routing key"`
	Queues     []Effect  `json:"queues" nullable:"false" doc:"Messages that were handled or given up, by queue"`
	Requests   []Effect  `json:"requests" nullable:"false" doc:"Requests of HTTP handlers, by queue and receiver"`
	NotHandled []Sending `json:"not_handled" nullable:"false" doc:"Messages of the plan whose effects are unknown: the record has none like them that was handled there"`
	Silent     []string  `json:"silent" nullable:"false" doc:"Queues whose effects are unknown: they handled messages, and no recorded message names one of these as its cause"`
	More       bool      `json:"more,omitempty" doc:"There are more routes or effects than were read"`
	Unread     bool      `json:"unread,omitempty" doc:"The record could not be read in time, so that nothing is known of the effects"`
}

// Effect counts one kind of effect.
type Effect struct {
	Exchange   string `json:"exchange,omitempty"`
	RoutingKey string `json:"routing_key,omitempty"`
	Queue      string `json:"queue,omitempty"`
	Receiver   string `json:"receiver,omitempty" doc:"Scheme and host"`
	Sampled    int    `json:"sampled" doc:"In the sample"`
	Expected   int    `json:"expected" doc:"By the sample, for all messages of the plan"`
}

// Sending are messages that go to one place.
type Sending struct {
	Exchange   string `json:"exchange,omitempty"`
	RoutingKey string `json:"routing_key,omitempty"`
	Queue      string `json:"queue,omitempty" doc:"The single queue"`
	Messages   int    `json:"messages"`
}

// effectsTimeout bounds the time in which effects are read: a plan is of use without them.
const effectsTimeout = 15 * time.Second

// expectEffects returns the effects of a plan, which are Unread if the record does not tell them. Nil: nothing would be sent.
func (o operations) expectEffects(ctx context.Context, kinds []replayer.Route) *Effects {
	ctx, cancel := context.WithTimeout(ctx, effectsTimeout)
	defer cancel()
	effects, err := o.findEffects(ctx, kinds)
	if err != nil {
		o.System.Logger().Warn("a replay is planned without its effects", "error", err)
		return &Effects{Published: []Effect{}, Queues: []Effect{}, Requests: []Effect{}, NotHandled: []Sending{}, Silent: []string{}, Unread: true}
	}
	return effects
}

// findEffects reads the effects of messages as in a plan.
func (o operations) findEffects(ctx context.Context, kinds []replayer.Route) (*Effects, error) {
	store, err := o.System.Store(ctx)
	if err != nil || len(kinds) == 0 {
		return nil, err
	}
	receivers, err := newReceivers(o.System)
	if err != nil {
		return nil, err
	}
	sendings := make([]history.Sending, len(kinds))
	for i, k := range kinds {
		sendings[i] = history.Sending{Exchange: k.Exchange, RoutingKey: k.RoutingKey, Queue: k.Queue, Messages: k.Messages}
	}
	found, err := history.FindEffects(ctx, store, sendings, history.EffectsConfig{
		Causation: pipeline.HeaderCausation, Restrict: access.FromContext(ctx).Restrict, Receiver: receivers.of,
	})
	if err != nil {
		return nil, err
	}
	effects := Effects{
		Sampled: found.Sampled, Published: effectsOf(found.Published), Queues: effectsOf(found.Queues), Requests: effectsOf(found.Requests),
		NotHandled: []Sending{}, Silent: append([]string{}, found.Silent...), More: found.More,
	}
	for _, s := range found.NotHandled {
		effects.NotHandled = append(effects.NotHandled, Sending(s))
	}
	return &effects, nil
}

func effectsOf(found []history.Effect) []Effect {
	effects := make([]Effect, len(found))
	for i, e := range found {
		effects[i] = Effect(e)
	}
	return effects
}

// receivers are the receivers of the requests of routes, by queue.
type receivers map[string]receiver

type receiver struct {
	url   target.URL
	hosts []target.Host
}

// newReceivers returns the receivers of the configured routes.
func newReceivers(sys *system.System) (receivers, error) {
	all := receivers{}
	for _, route := range sys.Settings().Routes {
		to := route.Handler.HTTP
		if route.Handler.HTTP.URL.Reveal() == "" {
			continue
		}
		parsed, err := target.ParseURL(to.URL.Reveal())
		if err != nil {
			return nil, err
		}
		r := receiver{url: parsed}
		for _, text := range to.Hosts {
			host, err := target.ParseHost(text)
			if err != nil {
				return nil, err
			}
			r.hosts = append(r.hosts, host)
		}
		all[route.Queue] = r
	}
	return all, nil
}

// chosenByMessage stands for the receiver of a message whose envelope does not name it.
const chosenByMessage = "a host that the message names"

// of returns the receiver of the request about a message; "": the queue has no HTTP handler.
func (r receivers) of(queue string, e schemas.Envelope) string {
	to, isHTTP := r[queue]
	if !isHTTP {
		return ""
	}
	filled, err := to.url.Fill(func(f target.Field) (string, error) {
		value, err := messagefield.Value(e, f)
		if err != nil && !to.url.HostFromMessage() {
			return "1", nil // of the path
		}
		return value, err
	}, to.hosts)
	if err != nil {
		return chosenByMessage
	}
	return (&url.URL{Scheme: filled.Scheme, Host: filled.Host}).String()
}
