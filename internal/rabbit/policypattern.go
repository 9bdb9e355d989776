package rabbit

import (
	"regexp"
	"time"

	"github.com/dlclark/regexp2"
)

// patternTimeout is the time that a pattern which backtracks may take with one name.
const patternTimeout = time.Second

// matchPattern reports whether a name matches the pattern of a policy. RabbitMQ has the syntax of
// PCRE, so policies may have look-around, as the usual one for every queue of clients has,
// ^(?!amq\.).*, which package regexp cannot read.
func matchPattern(pattern, name string) (bool, error) {
	if p, err := regexp.Compile(pattern); err == nil {
		return p.MatchString(name), nil
	}
	p, err := regexp2.Compile(pattern, regexp2.RE2)
	if err != nil {
		return false, err
	}
	p.MatchTimeout = patternTimeout
	return p.MatchString(name)
}
