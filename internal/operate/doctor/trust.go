package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/wire"
)

// checkTrust reports whether states are signed and, where they are not, the logins that
// could forge them.
func (t topologyChecks) checkTrust(ctx context.Context) {
	forgers, err := t.forgers(ctx)
	keys := t.StateKeys
	switch {
	case keys.Signs() && keys.Unsigned():
		t.report(UnsignedStatesAccepted, Warning, "states are signed, and those that are not count as well",
			"take the line unsigned out of amqp.state_key_file once what travelled before has arrived")
	case keys.Signs():
		t.reportOK(TrustCheck, "states are signed")
	case errors.Is(err, rabbit.ErrNotFound):
		t.reportOK(TrustCheck, "states are not signed, and the broker has one login")
	case err != nil:
		t.report(ForgersUnknown, Warning, "states are not signed, and only administrators may list the logins that could forge them: "+err.Error(),
			fmt.Sprintf("set amqp.state_key_file, or compare rabbitmqctl list_permissions --vhost %s with docs/permissions.md", wording.Quoted(t.VHost)))
	case len(forgers) > 0:
		t.report(StatesForgeable, Warning, "states are not signed, and other logins could forge them: "+firstOf(maxNames, forgers),
			"give each the rights that docs/permissions.md gives to others, or set amqp.state_key_file")
	default:
		t.reportOK(TrustCheck, "states are not signed, and no other login may write to Watership's exchanges and queues")
	}
	if t.trustsPublishedDeaths() && !keys.Signs() {
		t.report(DeathsForgeable, Warning, "RabbitMQ "+t.version+" passes on the x-death that a publisher writes: with it the state of a dead letter, or of a message in a delay queue, can be forged",
			"set amqp.state_key_file, or upgrade to RabbitMQ 4")
	}
}

// trustsPublishedDeaths reports whether RabbitMQ passes on the x-death that a publisher writes.
func (b *broker) trustsPublishedDeaths() bool { return isOlder(b.version, "4.0") }

// checkReporters lists the other logins that may report on messages of any queue, since no
// topic permission limits them to their own.
func (t topologyChecks) checkReporters(ctx context.Context) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	permissions, err := t.management.Permissions(ctx, t.VHost)
	if err != nil {
		return // checkTrust reports it
	}
	topics, err := t.management.TopicPermissions(ctx, t.VHost)
	if err != nil {
		return
	}
	exchange := t.Topology.Report()
	var everywhere []string
	limited := 0
	for _, p := range permissions {
		switch {
		case p.User == t.Login || !allows(p.Write, exchange):
		case reportsEverywhere(topics, p.User, exchange):
			everywhere = append(everywhere, p.User)
		default:
			limited++
		}
	}
	slices.Sort(everywhere)
	switch {
	case len(everywhere) > 0:
		t.report(ReportsUnlimited, Warning, "logins may report on messages of every queue, and so put messages into it: "+firstOf(maxNames, everywhere),
			fmt.Sprintf("limit each to its queues: rabbitmqctl set_topic_permissions --vhost %s LOGIN %s '^(QUEUE)$' '^$'", wording.Quoted(t.VHost), exchange))
	case limited > 0:
		t.reportOK(TrustCheck, "%s may report on the messages of some queues", wording.Plural(limited, "login"))
	}
}

// reportsEverywhere reports whether no topic permission limits the routing keys with which a
// user may publish to an exchange.
func reportsEverywhere(topics []rabbit.TopicPermission, user, exchange string) bool {
	const nobodys = "a queue of nobody"
	return !slices.ContainsFunc(topics, func(t rabbit.TopicPermission) bool {
		return t.User == user && t.Exchange == exchange && !allows(t.Write, nobodys)
	})
}

// forgers returns the other logins that may write to or configure exchanges and queues of
// Watership, each with the names of these.
func (b *broker) forgers(ctx context.Context) (forgers []string, err error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	permissions, err := b.management.Permissions(ctx, b.VHost)
	if err != nil {
		return nil, err
	}
	topics, err := b.management.TopicPermissions(ctx, b.VHost)
	if err != nil {
		return nil, err
	}
	queues, _ := b.ownQueues()
	names := append(b.Topology.Exchanges(), queues...)
	names = slices.DeleteFunc(names, func(name string) bool { return name == b.Topology.Report() }) // see checkReporters
	if b.hasFormerDelays() || b.trustsPublishedDeaths() {
		names = append(names, defaultExchange)
	}
	for _, p := range permissions {
		if p.User == b.Login {
			continue
		}
		var writable []string
		for _, name := range names {
			writes := allows(p.Write, name) && (name != b.Topology.Events() || publishesEvents(topics, p.User, name))
			if writes || name != defaultExchange && allows(p.Configure, name) {
				writable = append(writable, name)
			}
		}
		if len(writable) > 0 {
			forgers = append(forgers, fmt.Sprintf("%s (%s)", p.User, firstOf(3, writable)))
		}
	}
	slices.Sort(forgers)
	return forgers, nil
}

// hasFormerDelays reports whether there is a delay queue of a former release. Only then
// does a state count that came by the default exchange.
func (b *broker) hasFormerDelays() bool {
	for name := range b.queues {
		if wire.DelaysOf(b.Topology).HasFormer(name) {
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

// permissionsCommand returns the command that gives the login of Watership the rights that it needs
// and no others.
func (c Config) permissionsCommand() string {
	ours := regexp.QuoteMeta(prefixOf(c.Topology.Log())) + `\..*`
	configure, write, read := []string{ours}, []string{ours}, []string{ours}
	for _, tap := range c.Settings.Tap.Exchanges {
		write, read = append(write, regexp.QuoteMeta(tap.Name)), append(read, regexp.QuoteMeta(tap.Name))
	}
	for _, route := range c.Pipeline.Routes {
		queue := regexp.QuoteMeta(route.Queue)
		write, read = append(write, queue), append(read, queue)
		for _, binding := range route.Bind {
			read = append(read, regexp.QuoteMeta(binding.Exchange))
		}
		if route.Park {
			configure, write = append(configure, queue+`\.poison`), append(write, queue+`\.poison`)
		}
	}
	return fmt.Sprintf("rabbitmqctl set_permissions --vhost %s %s %s %s %s", wording.Quoted(c.VHost), wording.Quoted(c.Login), anyOf(configure), anyOf(write), anyOf(read))
}

// anyOf returns a quoted regular expression that matches each of the patterns as a whole.
func anyOf(patterns []string) string {
	slices.Sort(patterns)
	return wording.Quoted("^(" + strings.Join(slices.Compact(patterns), "|") + ")$")
}

// checkOwnExchanges looks for exchanges of Watership that are missing, or that a former
// release declared without the flag internal, so that publishers can use them.
func (t topologyChecks) checkOwnExchanges(ctx context.Context) {
	if _, err := t.management.Exchange(ctx, t.VHost, t.Topology.Return()); errors.Is(err, rabbit.ErrNotFound) {
		t.report(ExchangeMissing, Error, "exchange "+t.Topology.Return()+" is missing", "run watership setup")
	}
	for _, name := range []string{t.Topology.Tap(), t.Topology.Late(), t.Topology.Retry()} {
		exchange, err := t.management.Exchange(ctx, t.VHost, name)
		if err == nil && !exchange.Internal {
			t.report(ExchangeNotInternal, Warning, "exchange "+name+" is not internal: logins that may write to it can publish to it",
				"delete it while no queue dead-letters to it, and run watership setup, which makes it internal")
		}
	}
}
