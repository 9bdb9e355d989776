package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/render/quantity"
	"github.com/watershipmq/watership/retry"
)

// readPolicies reads policies by name, each with one.
func readPolicies(one func(l *loader, path string, n node) retry.Policy, into *map[string]retry.Policy) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		if n.Kind != mapping {
			l.fail(path, n, "expected policies by name")
			return
		}
		*into = map[string]retry.Policy{}
		for _, f := range n.Fields {
			at := join(path, f.Name)
			if _, err := boundedText(1, 200)(f.Name); err != nil {
				l.fail(redact(at), f.Value, "expected a name of 1 to 200 bytes")
				continue
			}
			(*into)[f.Name] = one(l, at, f.Value)
		}
	}
}

// ofNoClass are the fields that a policy has, and not its classes.
func ofNoClass() []string { return []string{"classes", "no_attempts", "spread", "time_zone"} }

// readClass reads a policy within another. It suggests no field that a class cannot have.
func readClass(l *loader, path string, n node) retry.Policy {
	return readPolicyOf(l, path, n, ofNoClass())
}

func readPolicy(l *loader, path string, n node) retry.Policy { return readPolicyOf(l, path, n, nil) }

func readPolicyOf(l *loader, path string, n node, unsuggested []string) retry.Policy {
	l.record(path, node{Origin: n.Origin})
	before := len(l.mistakes)
	var policy retry.Policy
	l.readFieldsSuggesting(path, n, unsuggested,
		structureField{name: "delays", read: scalars(queueTTL, &policy.Delays)},
		structureField{name: "first", read: scalar(queueTTL, &policy.First)},
		structureField{name: "factor", read: scalar(number(1, 1000), &policy.Factor)},
		structureField{name: "cap", read: scalar(queueTTL, &policy.Cap)},
		structureField{name: "jitter", read: scalar(number(0, 1), &policy.Jitter)},
		structureField{name: "attempts", read: scalar(wholeNumber(1, retry.MaxAttempts), &policy.Attempts)},
		structureField{name: "at", read: scalars(boundedText(0, 100), &policy.At)},
		structureField{name: "no_attempts", read: structures(readWindow, &policy.NoAttempts)},
		structureField{name: "spread", read: scalar(duration(time.Millisecond, day), &policy.Spread)},
		structureField{name: "time_zone", read: scalar(boundedText(1, 100), &policy.TimeZone)},
		structureField{name: "give_up_after", read: scalar(duration(time.Millisecond, 365*day), &policy.GiveUpAfter)},
		structureField{name: "classes", read: readPolicies(readClass, &policy.Classes)},
	)
	_, listed := n.field("delays")
	_, growing := n.field("first")
	_, daily := n.field("at")
	l.rejectIf(path+".delays", !listed && !growing && !daily, "the delays between attempts ([] for a single attempt), or first and attempts where they grow, or at with hours of the day")
	l.rejectIf(path+".first", listed && growing, "either delays or first")
	err := policy.Validate()
	if len(l.mistakes) > before { // of the others, one may follow from another that is not readable
		err = aboutHours(err)
	}
	l.checkFields(path, err)
	return policy
}

// aboutHours returns the errors of fields whose values mean the same whatever the other fields have.
func aboutHours(err error) error {
	var field *retry.FieldError
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var kept []error
		for _, one := range several.Unwrap() {
			kept = append(kept, aboutHours(one))
		}
		return errors.Join(kept...)
	}
	if !errors.As(err, &field) {
		return nil
	}
	ofWindow := strings.HasPrefix(field.Field, "no_attempts[") && strings.Contains(field.Field, "].")
	if ofWindow || strings.HasPrefix(field.Field, "at[") || field.Field == "time_zone" {
		return err
	}
	return nil
}

func readWindow(l *loader, path string, n node) retry.Window {
	var window retry.Window
	l.readFields(path, n,
		structureField{name: "days", read: scalars(boundedText(0, 100), &window.Days)},
		structureField{name: "dates", read: scalar(boundedText(1, 100), &window.Dates)},
		structureField{name: "from", read: scalar(boundedText(1, 100), &window.From)},
		structureField{name: "to", read: scalar(boundedText(1, 100), &window.To)},
	)
	return window
}

// readRule reads a rule that gives a class to errors.
func readRule(l *loader, path string, n node) retry.Rule {
	var rule retry.Rule
	l.readFields(path, n,
		structureField{name: "name", read: scalar(boundedText(1, 100), &rule.Name)},
		structureField{name: "queue", read: scalar(boundedText(1, 1000), &rule.Queue)},
		structureField{name: "headers", read: readEach("expected patterns of values by the names of headers, such as {x-tenant: acme-*}", &rule.Headers, func(l *loader, at string, f field) {
			var value string
			scalar(boundedText(0, 1000), &value)(l, at, f.Value)
			rule.Headers[f.Name] = value
		})},
		structureField{name: "error_type", read: scalar(boundedText(1, 1000), &rule.ErrorType)},
		structureField{name: "text", read: scalar(boundedText(1, 1000), &rule.Text)},
		structureField{name: "class", read: scalar(boundedText(1, 100), &rule.Class)},
	)
	return rule
}

// checkRules reports the mistakes in rules.
func (k checker) checkRules(path string, rules []retry.Rule) {
	for at := range k.failed {
		if strings.HasPrefix(at, path+"[") {
			return
		}
	}
	_, err := retry.NewClassifier(rules...)
	k.checkFields(path, err)
}

// checkFields reports the FieldErrors of a policy or a breaker.
func (l *loader) checkFields(path string, err error) {
	var field *retry.FieldError
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			l.checkFields(path, one)
		}
	} else if errors.As(err, &field) {
		at := join(path, field.Field)
		if strings.HasPrefix(field.Field, "[") {
			at = path + field.Field
		}
		l.rejectIf(at, true, field.Expected)
	}
}

func (l *loader) addDefaultPolicy(policies map[string]retry.Policy) {
	policies["default"] = retry.Default()
	delays := node{Kind: sequence}
	for _, d := range retry.Default().Delays {
		delays.Items = append(delays.Items, textNode(quantity.FormatDuration(d), Origin{}))
	}
	l.record("retry.policies.default.delays", delays)
}

// policyNames lists the names of all policies, sorted.
func (c *Config) policyNames() []string { return slices.Sorted(maps.Keys(c.Retry.Policies)) }
