package config

import (
	"errors"
	"maps"
	"slices"

	"github.com/watershipmq/watership/retry"
)

// readPolicies reads policies by their names, which are the user's.
func readPolicies(into *map[string]retry.Policy) read {
	return func(l *loader, path string, n node) {
		l.keep(path, node{Origin: n.Origin})
		if n.Form != mapping {
			l.fail(path, n, "expected policies by name")
			return
		}
		*into = map[string]retry.Policy{}
		for _, f := range n.Fields {
			at := join(path, f.Name)
			if _, err := name(1, 200)(f.Name); err != nil {
				l.fail(redact(at), f.Value, "expected a name of 1 to 200 bytes")
				continue
			}
			(*into)[f.Name] = readPolicy(l, at, f.Value)
		}
	}
}

func readPolicy(l *loader, path string, n node) retry.Policy {
	l.keep(path, node{Origin: n.Origin})
	before := len(l.mistakes)
	var policy retry.Policy
	l.parts(path, n,
		part{name: "delays", read: list(delay, &policy.Delays)},
		part{name: "first", read: value(delay, &policy.First)},
		part{name: "factor", read: value(number(1, 1000), &policy.Factor)},
		part{name: "cap", read: value(delay, &policy.Cap)},
		part{name: "jitter", read: value(number(0, 1), &policy.Jitter)},
		part{name: "attempts", read: value(wholeNumber(1, retry.MaxAttempts), &policy.Attempts)},
		part{name: "classes", read: readPolicies(&policy.Classes)},
	)
	_, listed := n.field("delays")
	_, growing := n.field("first")
	l.require(path+".delays", !listed && !growing, "the delays between attempts ([] for a single attempt), or first and attempts where they grow")
	l.require(path+".first", listed && growing, "either delays or first")
	if len(l.mistakes) == before { // what could not be read would be reported twice
		l.checkFields(path, policy.Validate())
	}
	return policy
}

// checkFields reports what is wrong between the fields of a policy.
func (l *loader) checkFields(path string, err error) {
	var field *retry.FieldError
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			l.checkFields(path, one)
		}
	} else if errors.As(err, &field) {
		l.failAt(join(path, field.Field), "expected "+field.Expected)
	}
}

func (l *loader) addDefaultPolicy(policies map[string]retry.Policy) {
	policies["default"] = retry.Default()
	delays := node{Form: sequence}
	for _, d := range retry.Default().Delays {
		delays.Items = append(delays.Items, textNode(FormatDuration(d), Origin{}))
	}
	l.keep("retry.policies.default.delays", delays)
}

// policyNames lists the policies that there are.
func (c *Config) policyNames() []string { return slices.Sorted(maps.Keys(c.Retry.Policies)) }
