package broker

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// policy gives settings to the queues and exchanges whose names match its pattern
// (https://www.rabbitmq.com/docs/policies). Of the policies that match, an object has the
// one with the highest priority.
type policy struct {
	name       string
	pattern    string
	applyTo    string
	priority   float64
	definition map[string]any

	matches   func(name string) bool
	arguments table  // the settings of queues, as arguments
	alternate string // the alternate exchange of exchanges; "" for none
}

// policySetting is a key of a definition, with its description in errors.
type policySetting struct{ key, words string }

const alternateExchange = "alternate-exchange"

func policySettings() []policySetting {
	return []policySetting{
		{alternateExchange, "alternate exchange name"},
		{"dead-letter-exchange", "dead letter exchange name"},
		{"dead-letter-routing-key", "dead letter routing key"},
		{"dead-letter-strategy", "dead letter strategy"},
		{"delivery-limit", "delivery limit"},
		{"expires", "queue expiry"},
		{"max-length", "maximum length"},
		{"max-length-bytes", "maximum length in bytes"},
		{"message-ttl", "message TTL"},
		{"overflow", "overflow value"},
	}
}

// appliesTo are the values of apply-to in the API. No object of this broker is a stream.
func appliesTo() []string {
	return []string{"queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all"}
}

// parse checks the policy and sets the fields that follow from its pattern and definition.
func (p *policy) parse(r Release) (err error) {
	if p.matches, err = matcherOf(p.pattern); err != nil {
		return fmt.Errorf("pattern should be regular expression but is invalid: %w", err)
	}
	if !slices.Contains(appliesTo(), p.applyTo) {
		return fmt.Errorf("apply-to '%s' unrecognised; should be one of: '%s'", p.applyTo, strings.Join(appliesTo(), "', '"))
	}
	if len(p.definition) == 0 {
		return errors.New("no policy provided")
	}
	for _, key := range slices.Sorted(maps.Keys(p.definition)) {
		if err := p.set(key, fieldOf(p.definition[key]), r); err != nil {
			return err
		}
	}
	return nil
}

func (p *policy) set(key string, f field, r Release) error {
	all := policySettings()
	known := slices.IndexFunc(all, func(s policySetting) bool { return s.key == key })
	if known < 0 {
		return fmt.Errorf("[{<<\"%s\">>,%s}] are not recognised policy settings of the embedded broker", key, shownValue(p.definition[key]))
	}
	valid := false
	if key == alternateExchange {
		p.alternate, valid = f.text()
	} else if a, there := queueArgument("x-"+key, r); there {
		valid = a.set(&settings{hasDLX: true}, f) == ""
		p.arguments = p.arguments.withField(a.name, f)
	}
	if !valid {
		return fmt.Errorf("%s is not a valid %s", shownValue(p.definition[key]), all[known].words)
	}
	return nil
}

// shownValue returns a value as RabbitMQ writes it in errors.
func shownValue(value any) string {
	if text, isText := value.(string); isText {
		return fmt.Sprintf("<<\"%s\">>", text)
	}
	return fmt.Sprint(value)
}

func queueArgument(name string, r Release) (argument, bool) {
	for _, a := range queueArguments(r) {
		if a.name == name {
			return a, true
		}
	}
	return argument{}, false
}

// patternTimeout is the time that a pattern which backtracks may take with one name.
const patternTimeout = time.Second

// matcherOf returns a function that matches names with a pattern. RabbitMQ has the syntax of
// PCRE, and many of its policies have look-around, ^(?!amq\.).*, which package regexp
// cannot read.
func matcherOf(pattern string) (func(name string) bool, error) {
	if p, err := regexp.Compile(pattern); err == nil {
		return p.MatchString, nil
	}
	p, err := regexp2.Compile(pattern, regexp2.RE2)
	if err != nil {
		return nil, err
	}
	p.MatchTimeout = patternTimeout
	return func(name string) bool {
		matched, err := p.MatchString(name)
		return err == nil && matched
	}, nil
}

func (p *policy) fitsExchange(x *exchange) bool {
	return (p.applyTo == "all" || p.applyTo == "exchanges") && p.matches(x.name)
}

// fitsQueue reports whether a policy is for a queue. A policy with a setting that the type
// of the queue does not support gives it none of its settings.
func (p *policy) fitsQueue(q *queue) bool {
	switch p.applyTo {
	case "all", "queues", q.settings.kind() + "_queues":
	default:
		return false
	}
	for name := range p.arguments.fields() {
		if a, _ := queueArgument(name, q.vhost.rabbitmq); !a.fits(q.settings.quorum) {
			return false
		}
	}
	return p.matches(q.name)
}

// policyFor returns the policy with the highest priority of those that fit, of equal ones
// the first by name; nil for none.
func (v *vhost) policyFor(fits func(*policy) bool) (best *policy) {
	for _, name := range slices.Sorted(maps.Keys(v.policies)) {
		if p := v.policies[name]; (best == nil || p.priority > best.priority) && fits(p) {
			best = p
		}
	}
	return best
}

// applyPolicies gives every object its policy, after a change of the policies.
func (v *vhost) applyPolicies() {
	for _, x := range v.exchanges {
		x.applyPolicy(v)
	}
	for _, q := range v.queues {
		q.applyPolicy()
		q.dropOverflow()
		q.updateDeadline()
	}
}

// applyPolicy sets the alternate exchange: an argument precedes the policy. The default
// exchange has none (see routeThrough).
func (x *exchange) applyPolicy(v *vhost) {
	x.policy, x.alternate = v.policyFor(func(p *policy) bool { return p.fitsExchange(x) }), ""
	if f, there := x.args.lookup(alternateExchange); there {
		x.alternate, _ = f.text()
	} else if x.policy != nil && x.name != "" {
		x.alternate = x.policy.alternate
	}
}

// applyPolicy sets the settings of a queue from its arguments and its policy.
func (q *queue) applyPolicy() {
	args, former := q.args, q.settings
	if q.policy = q.vhost.policyFor(func(p *policy) bool { return p.fitsQueue(q) }); q.policy != nil {
		args = q.policy.arguments.over(args, q.settings.quorum)
	}
	s, err := parseSettings(args, q.description(), q.vhost.rabbitmq)
	if err != nil {
		return // both were checked
	}
	q.settings = s
	if !s.atLeastOnce {
		q.dropUndelivered()
	}
	if s.expires != former.expires {
		q.touch()
	}
}

// over returns the arguments of a queue with the settings of a policy. The stricter of two
// numbers applies, and of two texts the argument, but for the overflow of quorum queues.
func (t table) over(args table, quorum bool) table {
	for name, f := range t.fields() {
		own, there := args.lookup(name)
		if !there || stricter(name, f, own) || quorum && name == "x-overflow" {
			args = args.without(name).withField(name, f)
		}
	}
	if _, there := args.lookup("x-dead-letter-exchange"); !there {
		args = args.without("x-dead-letter-routing-key") // a policy may have it alone
	}
	return args
}

// stricter reports whether a setting of a policy precedes the argument of a queue. A
// negative delivery limit means no limit.
func stricter(name string, f, own field) bool {
	limit, isNumber := f.integer()
	have, isAlso := own.integer()
	if name == "x-delivery-limit" && (limit < 0 || have < 0) {
		return limit > have
	}
	return isNumber && isAlso && limit < have
}
