package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wording"
)

// checkTrust reports whether states are signed and, where they are not, the logins that
// could forge them.
func (d *doctor) checkTrust(ctx context.Context) {
	forgers, err := d.forgers(ctx)
	keys := d.StateKeys
	switch {
	case keys.Signs() && keys.Unsigned():
		d.say("trust", Warning, "states are signed, and those that are not count as well",
			"take the line unsigned out of amqp.state_key_file once what travelled before has arrived")
	case keys.Signs():
		d.fine("trust", "states are signed")
	case errors.Is(err, rabbit.ErrNotFound):
		d.fine("trust", "states are not signed, and the broker has one login")
	case err != nil:
		d.say("trust", Warning, "states are not signed, and which logins could forge them is told to administrators alone: "+err.Error(),
			fmt.Sprintf("set amqp.state_key_file, or compare rabbitmqctl list_permissions --vhost %s with docs/security.md", wording.Quoted(d.VHost)))
	case len(forgers) > 0:
		d.say("trust", Warning, "states are not signed, and other logins could forge them: "+few(forgers),
			"give each the rights that docs/security.md gives to others, or set amqp.state_key_file")
	default:
		d.fine("trust", "states are not signed, and no other login may write to our exchanges and queues")
	}
	if older(d.version, "4.0") && !keys.Signs() {
		d.say("trust", Warning, "RabbitMQ "+d.version+" passes on the x-death that a publisher writes: with it the state of a dead letter can be forged",
			"set amqp.state_key_file, or upgrade to RabbitMQ 4")
	}
}

// forgers returns the other logins that may write to or configure exchanges and queues of
// Watership, each with the names of these.
func (d *doctor) forgers(ctx context.Context) (forgers []string, err error) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	permissions, err := d.management.Permissions(ctx, d.VHost)
	if err != nil {
		return nil, err
	}
	topics, err := d.management.TopicPermissions(ctx, d.VHost)
	if err != nil {
		return nil, err
	}
	queues, _ := d.ours()
	names := append(d.Topology.Exchanges(), queues...)
	if d.hasFormerDelays() {
		names = append(names, defaultExchange)
	}
	for _, p := range permissions {
		if p.User == d.Login {
			continue
		}
		var may []string
		for _, name := range names {
			writes := allows(p.Write, name) && (name != d.Topology.Events() || publishesEvents(topics, p.User, name))
			if writes || name != defaultExchange && allows(p.Configure, name) {
				may = append(may, name)
			}
		}
		if len(may) > 0 {
			forgers = append(forgers, fmt.Sprintf("%s (%s)", p.User, firstOf(may)))
		}
	}
	slices.Sort(forgers)
	return forgers, nil
}

// hasFormerDelays reports whether there is a delay queue of a former release. Only then
// does a state count that came by the default exchange.
func (d *doctor) hasFormerDelays() bool {
	for name := range d.queues {
		if d.Topology.IsFormerDelay(name) {
			return true
		}
	}
	return false
}

// defaultExchange is the name of the default exchange in permissions.
const defaultExchange = "amq.default"

// allows reports whether a permission matches a name. A pattern that only Erlang can
// parse counts as a match.
func allows(pattern, name string) bool {
	if pattern == "" {
		return false
	}
	compiled, err := regexp.Compile(pattern)
	return err != nil || compiled.MatchString(name)
}

// publishesEvents reports whether topic permissions let a user publish to an exchange
// with any routing key.
func publishesEvents(topics []rabbit.TopicPermission, user, exchange string) bool {
	return !slices.ContainsFunc(topics, func(t rabbit.TopicPermission) bool {
		return t.User == user && t.Exchange == exchange && (t.Write == "" || t.Write == "^$")
	})
}

func firstOf(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// grant returns the command that gives the login of Watership the rights that it needs
// and no others.
func (d *doctor) grant() string {
	ours := regexp.QuoteMeta(prefixOf(d.Topology.Log())) + `\..*`
	configure, write, read := []string{ours}, []string{ours}, []string{ours}
	for _, tap := range d.Settings.Tap.Exchanges {
		write, read = append(write, regexp.QuoteMeta(tap.Name)), append(read, regexp.QuoteMeta(tap.Name))
	}
	for _, route := range d.Pipeline.Routes {
		queue := regexp.QuoteMeta(route.Queue)
		write, read = append(write, queue), append(read, queue)
		for _, binding := range route.Bind {
			read = append(read, regexp.QuoteMeta(binding.Exchange))
		}
		if route.Park {
			configure, write = append(configure, queue+`\.poison`), append(write, queue+`\.poison`)
		}
	}
	return fmt.Sprintf("rabbitmqctl set_permissions --vhost '%s' %s %s %s %s", d.VHost, wording.Quoted(d.Login), pattern(configure), pattern(write), pattern(read))
}

// pattern returns a regular expression that matches one of several patterns as a whole.
func pattern(names []string) string {
	slices.Sort(names)
	return wording.Quoted("^(" + strings.Join(slices.Compact(names), "|") + ")$")
}

// checkExchanges looks for exchanges of Watership that are missing, or that a former
// release declared without the flag internal, so that publishers can use them.
func (d *doctor) checkExchanges(ctx context.Context) {
	if _, err := d.management.Exchange(ctx, d.VHost, d.Topology.Return()); errors.Is(err, rabbit.ErrNotFound) {
		d.say("bindings", Wrong, "exchange "+d.Topology.Return()+" is missing", "run watership setup")
	}
	for _, name := range []string{d.Topology.Tap(), d.Topology.Late(), d.Topology.Retry()} {
		exchange, err := d.management.Exchange(ctx, d.VHost, name)
		if err == nil && !exchange.Internal {
			d.say("trust", Warning, "exchange "+name+" is not internal: logins that may write to it can publish to it",
				"delete it while no queue dead-letters to it, and run watership setup, which makes it internal")
		}
	}
}
