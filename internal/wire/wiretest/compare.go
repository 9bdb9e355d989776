package wiretest

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/watershipmq/watership/schemas"
)

// Bitwise compares floats by their bits and times by their seconds.
func Bitwise() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
		cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
		cmp.Comparer(func(a, b time.Time) bool { return a.Unix() == b.Unix() }),
	}
}

func WantEnvelope(t *testing.T, got, want schemas.Envelope) {
	t.Helper()
	if diff := cmp.Diff(want, got, Bitwise(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("an envelope changed on its way (-want +got):\n%s", diff)
	}
}

func ThroughDocument(t *testing.T, e schemas.Event) schemas.Event {
	t.Helper()
	source := schemas.DocumentFormat{Labels: []string{"tenant"}, NumericLabels: []string{"int32"}}.Append(nil, e)
	if problem := unacceptable(source); problem != "" {
		t.Fatalf("the document has %s: %s", problem, source)
	}
	parsed, err := schemas.ParseDocument(source)
	if err != nil {
		t.Fatalf("%v: %s", err, source)
	}
	return parsed
}

// unacceptable returns the reason why Elasticsearch would refuse a document's
// syntax.
func unacceptable(source []byte) string {
	switch {
	case !json.Valid(source):
		return "no valid JSON"
	case !utf8.Valid(source):
		return "bytes that are not UTF-8"
	case bytes.ContainsAny(source, "\n\r"):
		return "more than one line"
	case duplicateKey(source):
		return "a duplicate key"
	}
	return ""
}

func duplicateKey(source []byte) bool {
	type level struct {
		keys  map[string]bool
		isKey bool
	}
	var open []level
	for decoder := json.NewDecoder(bytes.NewReader(source)); ; {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 && open[len(open)-1].keys != nil {
			top := &open[len(open)-1]
			if top.isKey {
				if top.keys[token.(string)] {
					return true
				}
				top.keys[token.(string)], top.isKey = true, false
				continue
			}
			top.isKey = true
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{map[string]bool{}, true})
		case json.Delim('['):
			open = append(open, level{})
		}
	}
}
