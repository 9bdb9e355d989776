// Package bodyschema checks the bodies of messages with a JSON Schema, before a handler gets
// them. A body that does not fit is poison at once, since it fits at no later attempt either:
//
//	func main() {
//		schema, err := bodyschema.Load("order.schema.json")
//		if err != nil {
//			log.Fatal(err)
//		}
//		p, err := pipeline.New(pipeline.Config{
//			Connection: rabbitmq.Connection{URL: "amqp://guest:guest@localhost:5672/"},
//			Routes:     []pipeline.Route{{Queue: "orders", Check: schema.Check, Handler: invoice}},
//		})
//		if err != nil {
//			log.Fatal(err)
//		}
//		log.Fatal(p.Run(context.Background()))
//	}
//
// Schemas are of JSON Schema 2020-12, 2019-09, draft 7, 6 or 4, as $schema says; without
// $schema of 2020-12. They may refer to other files in their directory and
// beneath it; nothing is read from the network. Numbers are compared exactly. The keyword
// format only asserts where the draft says so, up to draft 7.
//
// A check takes bounded steps and bounded memory: see Schema.Check.
package bodyschema

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/retry"
)

// Class is the class of the errors of Check.
const Class = "schema"

// Schema is a compiled JSON Schema. Several goroutines may use it.
type Schema struct {
	name   string // of its file
	base   string // URL of the directory of its file
	digest string // of the contents of its files

	compile func() (*jsonschema.Schema, error)
	idle    chan *validator // those that no check uses
	large   chan struct{}   // a token for a check that is large
}

// Name returns the name of the schema's file, without its directory.
func (s *Schema) Name() string { return s.name }

// Digest returns a text that differs if the content of a file of the schema does.
func (s *Schema) Digest() string { return s.digest }

// Check returns an error of class Class, marked with retry.Permanent, unless a body is JSON
// that fits the schema. The error has an *Error with the faults. A body with more than 100,000
// values or 500 levels does not fit, nor one with a number of more than 1,000 digits, and
// neither does one whose check
// takes more than 1,000,000 comparisons of a value with a part of the schema, or fewer if it has
// many levels: 500,000 for 10. The error contains names of members, and
// no values of the body.
func (s *Schema) Check(body []byte) error {
	faults, more := s.faults(body)
	if len(faults) == 0 {
		return nil
	}
	return retry.Permanent(retry.Class(Class, &Error{Schema: s.name, Faults: faults, More: more}))
}

func (s *Schema) faults(body []byte) (faults []Fault, more int) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // a byte order mark, which parsers may ignore (RFC 8259 §8.1)
	values, levels, err := measure(body)
	if err != nil {
		return []Fault{{Text: err.Error()}}, 0
	}
	result, err := usercode.Recover(func() (collected, error) { return s.check(body, values, levels) })
	if err != nil {
		return []Fault{{Text: cut("the body cannot be checked: " + err.Error())}}, 0
	}
	return result.faults, result.more
}

func (s *Schema) check(body []byte, values, levels int) (collected, error) {
	if values <= largeBody {
		found, err := s.validate(body, steps(smallCheck, levels))
		if !errors.Is(err, errTooManySteps) {
			return found, err
		}
	}
	s.large <- struct{}{}
	defer func() { <-s.large }()
	most := steps(largeCheck, levels)
	found, err := s.validate(body, most)
	if errors.Is(err, errTooManySteps) {
		return collected{faults: []Fault{{Text: fmt.Sprintf("the check takes more than %d steps", most)}}}, nil
	}
	return found, err
}

// validate decodes and validates a body. It returns errTooManySteps if it takes more.
func (s *Schema) validate(body []byte, maxSteps int) (collected, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return collected{faults: []Fault{{Text: cut("the body is not JSON: " + err.Error())}}}, nil
	}
	v, err := s.validator()
	if err != nil {
		return collected{}, err
	}
	defer s.release(v)
	invalid, err := v.validate(value, maxSteps)
	if err != nil {
		return collected{}, err
	}
	return collect(invalid, s.base), nil
}

// validator returns a validator that no other check uses.
func (s *Schema) validator() (*validator, error) {
	select {
	case v := <-s.idle:
		return v, nil
	default:
		compiled, err := s.compile()
		if err != nil {
			return nil, err
		}
		return newValidator(compiled), nil
	}
}

func (s *Schema) release(v *validator) {
	select {
	case s.idle <- v:
	default:
	}
}
