package sqlite

import (
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
)

// ofPattern matches a value against a pattern with wildcards. The text before the first
// wildcard uses an index.
func ofPattern(pattern kql.Pattern) predicate {
	p := predicate{from: pattern[0]}
	if pattern[0] != "" {
		p.to = afterPrefix(pattern[0])
	}
	if _, isPrefix := pattern.Prefix(); !isPrefix {
		p.rest = func(value string) condition { return matchesPattern(value, pattern) }
	}
	p.test = func(value string) condition {
		conditions := []condition{hasPrefix(value, pattern[0])}
		if p.rest != nil {
			conditions = append(conditions, p.rest(value))
		}
		return allOf(conditions)
	}
	return p
}

func matchesPattern(value string, pattern kql.Pattern) condition {
	args := make([]any, len(pattern))
	for i, part := range pattern {
		args[i] = part
	}
	return where("matches("+value+strings.Repeat(", ?", len(args))+")", args...)
}

// hasPrefix is a range of texts, which can use an index.
func hasPrefix(value, prefix string) condition {
	if prefix == "" {
		return where("typeof(" + value + ") = 'text'")
	}
	return where(value+" >= ? AND "+value+" < ?", prefix, afterPrefix(prefix))
}

// afterPrefix returns a text above all texts with a prefix. UTF-8 has no byte 0xff, so the
// addition does not overflow.
func afterPrefix(prefix string) string {
	end := []byte(prefix)
	end[len(end)-1]++
	return string(end)
}
