package agent

import (
	"encoding/json"
	"slices"

	"github.com/watershipmq/watership/internal/operation"
)

// guard returns the arguments that limit an operation to the items in the response of its plan, or
// nothing. why is the reason why the plan cannot be done; "": it can.
type guard func(op *operation.Operation, arguments map[string]json.RawMessage, planned []byte) (guarded map[string]json.RawMessage, why string)

// matched is the guard of plans that count.
func matched(op *operation.Operation, arguments map[string]json.RawMessage, planned []byte) (guarded map[string]json.RawMessage, why string) {
	var found struct {
		Matched int             `json:"matched"`
		UpTo    json.RawMessage `json:"up_to"`
		Problem string          `json:"problem"`
	}
	_ = json.Unmarshal(planned, &found) // it is a response of the API
	switch {
	case found.Problem != "":
		return nil, "it has a problem, which is said below."
	case found.Matched == 0:
		return nil, "nothing matches."
	}
	own := map[string]json.RawMessage{"expect": asJSON(found.Matched)}
	if op.Has("up_to") {
		own["up_to"] = found.UpTo
	}
	return withArguments(arguments, own), ""
}

// left is the guard of a job that goes on.
func left(_ *operation.Operation, arguments map[string]json.RawMessage, planned []byte) (guarded map[string]json.RawMessage, why string) {
	var job struct{ Total, Sent, Skipped, Stopped, Failed int }
	_ = json.Unmarshal(planned, &job) // it is a response of the API
	messages := job.Total - job.Sent - job.Skipped - job.Stopped - job.Failed
	if messages <= 0 {
		return nil, "no message is left."
	}
	return withArguments(arguments, map[string]json.RawMessage{"expect": asJSON(messages)}), ""
}

const maxPositions = 1000 // of a request

// listed is the guard of parked messages: without positions the action is about all, and so about those that are
// parked later.
func listed(_ *operation.Operation, arguments map[string]json.RawMessage, planned []byte) (guarded map[string]json.RawMessage, why string) {
	var found struct{ Parked []struct{ Position string } }
	var asked []string
	_ = json.Unmarshal(planned, &found)                // it is a response of the API
	_ = json.Unmarshal(arguments["positions"], &asked) // it was checked
	var positions []string
	for _, message := range found.Parked {
		if len(asked) == 0 || slices.Contains(asked, message.Position) {
			positions = append(positions, message.Position)
		}
	}
	switch {
	case len(positions) == 0:
		return nil, "no such message is parked."
	case len(positions) > maxPositions:
		return nil, "more than 1000 messages are parked: give positions."
	}
	return withArguments(arguments, map[string]json.RawMessage{"positions": asJSON(positions)}), ""
}

func asJSON(value any) json.RawMessage {
	text, _ := json.Marshal(value) // a number or texts
	return text
}
