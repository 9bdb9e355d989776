package retry

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Rule gives a class to failures, whichever language their consumer is written in. Conditions
// that are empty are met by every failure. In patterns, * stands for any text.
type Rule struct {
	Name      string            // recorded with the attempt
	Queue     string            // pattern of the queue
	Headers   map[string]string // patterns of the values of headers, by name
	ErrorType string            // pattern of the type of the error
	Text      string            // regular expression found in the text of the error (RE2)
	Class     string
}

const (
	longestRuleName = 100
	longestPattern  = 1000

	// longestText is the length in bytes of an error in which Text is searched.
	longestText = 64 << 10
)

// Classifier gives classes to failures by the first rule that matches.
type Classifier struct{ rules []compiledRule }

type compiledRule struct {
	Rule
	text *regexp.Regexp // nil: any
}

// NewClassifier returns a classifier with rules in their order, and every mistake in them,
// each as a FieldError whose field is such as [0].text: no name or one twice, no class, no
// condition, an invalid regular expression, and values that are too long.
func NewClassifier(rules ...Rule) (*Classifier, error) {
	c := &Classifier{}
	var errs []error
	names := map[string]bool{}
	for i, rule := range rules {
		compiled, mistakes := rule.compile()
		if names[rule.Name] {
			mistakes = append(mistakes, &FieldError{"name", rule.Name, "each name once"})
		}
		names[rule.Name] = true
		for _, mistake := range mistakes {
			mistake.Field = fmt.Sprintf("[%d].%s", i, mistake.Field)
			errs = append(errs, mistake)
		}
		c.rules = append(c.rules, compiled)
	}
	return c, errors.Join(errs...)
}

func (r Rule) compile() (compiledRule, []*FieldError) {
	var found []*FieldError
	expect := func(field, value string, ok bool, expected string) {
		if !ok {
			found = append(found, &FieldError{field, value, expected})
		}
	}
	expect("name", r.Name, r.Name != "" && len(r.Name) <= longestRuleName, "a name of 1 to 100 bytes")
	expect("class", r.Class, r.Class != "" && len(r.Class) <= longestRuleName, "a class of 1 to 100 bytes")
	expect("name", "", r.Queue != "" || len(r.Headers) > 0 || r.ErrorType != "" || r.Text != "", "a condition beside it: queue, headers, error_type or text")
	compiled := compiledRule{Rule: r}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		expect("headers", name, name != "" && len(r.Headers[name]) <= longestPattern, "the pattern of a value, up to 1000 bytes, by the name of a header")
	}
	expect("queue", r.Queue, len(r.Queue) <= longestPattern, "a pattern up to 1000 bytes")
	expect("error_type", r.ErrorType, len(r.ErrorType) <= longestPattern, "a pattern up to 1000 bytes")
	if r.Text != "" {
		var err error
		compiled.text, err = regexp.Compile(r.Text)
		expect("text", r.Text, err == nil && len(r.Text) <= longestPattern, "a regular expression up to 1000 bytes (RE2)")
	}
	return compiled, found
}

// fits reports whether a whole text fits a pattern; "" is the pattern of any text.
func fits(pattern, text string) bool {
	parts := strings.Split(cmp.Or(pattern, "*"), "*")
	if len(parts) == 1 {
		return text == pattern
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, last)
}

// Classify returns an error with its class, and the name of the rule that chose it. An error
// that names its class keeps it. rule is "" if none matches. A nil Classifier has no rules.
func (c *Classifier) Classify(queue string, headers map[string]any, err error) (rule string, classified error) {
	var explicit *ClassError
	if c == nil || len(c.rules) == 0 || errors.As(err, &explicit) && explicit.Class != "" {
		return "", err
	}
	text, errorType := err.Error(), TypeOf(err)
	text = text[:min(len(text), longestText)]
	for _, r := range c.rules {
		if r.matches(queue, headers, errorType, text) {
			return r.Name, Class(r.Class, err)
		}
	}
	return "", err
}

func (r compiledRule) matches(queue string, headers map[string]any, errorType, text string) bool {
	if !fits(r.Queue, queue) || !fits(r.ErrorType, errorType) || r.text != nil && !r.text.MatchString(text) {
		return false
	}
	for name, wanted := range r.Headers {
		if value, ok := headerText(headers[name]); !ok || !fits(wanted, value) {
			return false
		}
	}
	return true
}

// headerText returns a header as text, unless it is a table or a list.
func headerText(value any) (text string, ok bool) {
	switch value := value.(type) {
	case []byte:
		return string(value), true
	case string, bool, int, int8, int16, int32, int64, uint8, uint16, uint32, float32, float64:
		return fmt.Sprint(value), true
	}
	return "", false
}
