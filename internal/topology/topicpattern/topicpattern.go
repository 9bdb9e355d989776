// Package topicpattern matches routing keys with the patterns of topic exchanges.
package topicpattern

import "strings"

// Matches reports whether a routing key matches a topic pattern: `*` is one word, `#` any
// number of words. Patterns and keys are foreign input, so the time is bounded by their
// product.
func Matches(pattern, key string) bool {
	return matches(strings.Split(pattern, "."), strings.Split(key, "."))
}

func matches(pattern, words []string) bool {
	// matched[n]: the parts so far match the first n words.
	matched := make([]bool, len(words)+1)
	matched[0] = true
	for _, part := range pattern {
		if part == "#" {
			for n := range words {
				matched[n+1] = matched[n+1] || matched[n]
			}
			continue
		}
		for n := len(words); n > 0; n-- {
			matched[n] = matched[n-1] && (part == "*" || part == words[n-1])
		}
		matched[0] = false
	}
	return matched[len(words)]
}
