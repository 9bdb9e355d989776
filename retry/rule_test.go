package retry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// typedError has a type as reports and responses of services have it.
type typedError struct{ kind, text string }

func (e typedError) Error() string     { return e.text }
func (e typedError) ErrorType() string { return e.kind }

// The first rule whose conditions are all met chooses the class of an error that names none.
func TestRules(t *testing.T) {
	classifier, err := NewClassifier(
		Rule{Name: "gold", Queue: "orders*", Headers: map[string]string{"x-tier": "gold", "x-tenant": "*"}, Class: "urgent"},
		Rule{Name: "locks", ErrorType: "psycopg2.*.Deadlock*", Class: "database"},
		Rule{Name: "stock", Queue: "orders", Text: `(?i)no stock of item \d+$`, Class: "stock"},
		Rule{Name: "large", Headers: map[string]string{"x-lines": "1??"}, Class: "exact"},
		Rule{Name: "mail", Queue: "mail", Class: "mail"},
		Rule{Name: "also mail", Queue: "mail", Class: "never"},
	)
	if err != nil {
		t.Fatal(err)
	}
	type headers map[string]any
	stock := errors.New("No stock of item 42")
	for name, test := range map[string]struct {
		queue   string
		headers headers
		err     error
		want    string // rule and class
	}{
		"queue and headers":            {"orders.eu", headers{"x-tier": "gold", "x-tenant": int64(7)}, stock, "gold urgent"},
		"a header is missing":          {"orders.eu", headers{"x-tier": "gold"}, stock, " default"},
		"a header has another value":   {"orders", headers{"x-tier": "golden", "x-tenant": "a"}, stock, "stock stock"},
		"a header is a table":          {"orders", headers{"x-tier": headers{}, "x-tenant": "a"}, stock, "stock stock"},
		"a header of bytes":            {"orders.eu", headers{"x-tier": []byte("gold"), "x-tenant": true}, stock, "gold urgent"},
		"an error type":                {"any", nil, typedError{"psycopg2.errors.DeadlockDetected", "x"}, "locks database"},
		"a part of an error type":      {"any", nil, typedError{"my.psycopg2.errors.DeadlockDetected", "x"}, " default"},
		"a wrapped error":              {"any", nil, fmt.Errorf("saving: %w", typedError{"psycopg2.x.Deadlock", "x"}), "locks database"},
		"text":                         {"orders", nil, stock, "stock stock"},
		"text in another queue":        {"order", nil, stock, " default"},
		"? is no wildcard":             {"any", headers{"x-lines": "100"}, stock, " default"},
		"the first of two":             {"mail", nil, stock, "mail mail"},
		"an explicit class wins":       {"mail", nil, Class("own", stock), " own"},
		"an explicit class in a chain": {"mail", nil, fmt.Errorf("x: %w", Class("own", stock)), " own"},
		"a permanent error":            {"mail", nil, Permanent(stock), "mail mail"},
	} {
		t.Run(name, func(t *testing.T) {
			rule, classified := classifier.Classify(test.queue, test.headers, test.err)
			if got := rule + " " + ClassOf(classified); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if !errors.Is(classified, test.err) && !strings.Contains(classified.Error(), test.err.Error()) || IsPermanent(classified) != IsPermanent(test.err) {
				t.Errorf("the error is %v", classified)
			}
		})
	}
}

func TestMistakesInRules(t *testing.T) {
	for want, rules := range map[string][]Rule{
		"[0].name: expected a name of 1 to 100 bytes":                                             {{Queue: "a", Class: "c"}},
		"[0].class: expected a class of 1 to 100 bytes":                                           {{Name: "a", Queue: "a"}},
		"[0].name: expected a condition beside it: queue, headers, error_type or text":            {{Name: "a", Class: "c"}},
		"[1].name a: expected each name once":                                                     {{Name: "a", Queue: "a", Class: "c"}, {Name: "a", Queue: "b", Class: "c"}},
		"[0].text (a: expected a regular expression up to 1000 bytes (RE2)":                       {{Name: "a", Text: "(a", Class: "c"}},
		"[0].text a(?=b): expected a regular expression up to 1000 bytes (RE2)":                   {{Name: "a", Text: "a(?=b)", Class: "c"}},
		"[0].headers: expected the pattern of a value, up to 1000 bytes, by the name of a header": {{Name: "a", Headers: map[string]string{"": "x"}, Class: "c"}},
		"[0].queue " + strings.Repeat("q", 1001) + ": expected a pattern up to 1000 bytes":        {{Name: "a", Queue: strings.Repeat("q", 1001), Class: "c"}},
		"[0].error_type " + strings.Repeat("q", 1001) + ": expected a pattern up to 1000 bytes":   {{Name: "a", ErrorType: strings.Repeat("q", 1001), Class: "c"}},
	} {
		if _, err := NewClassifier(rules...); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Any rule is refused or works, with any error.
func FuzzRules(f *testing.F) {
	f.Add("orders*", "x-tier", "g*d", "*Error", `no stock of \d+`, "orders.eu", "gold", "TypeError", "no stock of 42")
	f.Add("*", "", "", "**", "", "", "", "", "")
	f.Add("a", "h", "\xff", "", "(?s).*", "a", "\xff", "", "\n")
	f.Fuzz(func(t *testing.T, queue, header, value, errorType, text, inQueue, has, kind, message string) {
		rule := Rule{Name: "r", Queue: queue, ErrorType: errorType, Text: text, Class: "c"}
		if header != "" {
			rule.Headers = map[string]string{header: value}
		}
		classifier, err := NewClassifier(rule)
		if err != nil {
			return
		}
		chosen, classified := classifier.Classify(inQueue, map[string]any{header: has}, typedError{kind, message})
		if (chosen == "r") != (ClassOf(classified) == "c") {
			t.Errorf("rule %q, class %q", chosen, ClassOf(classified))
		}
		if everything := strings.Trim(queue+value+errorType, "*") == "" && text == ""; everything && chosen != "r" {
			t.Errorf("%+v does not match", rule)
		}
	})
}
