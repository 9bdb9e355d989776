package transform

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/watershipmq/watership/schemas"
)

// Example is a message before and after a program, as JSON.
type Example struct {
	EventID string
	Before  json.RawMessage
	After   json.RawMessage // nil: the program fails
	Problem string          // why the program fails; "": it does not
}

// Examples are the first few messages that a program changes, and for which it fails.
type Examples []Example

const maxExamples = 3 // of each kind

// Add adds a message that the program changes, or for which it fails, unless there are enough
// of its kind.
func (x *Examples) Add(eventID string, before, after schemas.Envelope, failed *Error) (err error) {
	example, ofKind := Example{EventID: eventID}, 0
	if failed != nil {
		example.Problem = failed.Error()
	}
	for _, e := range *x {
		if (e.Problem != "") == (failed != nil) {
			ofKind++
		}
	}
	if ofKind >= maxExamples || failed == nil && reflect.DeepEqual(before, after) {
		return nil
	}
	if example.Before, err = JSON(before); err == nil && failed == nil {
		example.After, err = JSON(after)
	}
	if err != nil {
		return fmt.Errorf("writing an example: %w", err)
	}
	*x = append(*x, example)
	return nil
}
