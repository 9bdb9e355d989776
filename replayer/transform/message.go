package transform

import (
	"bytes"
	"encoding/json"

	"github.com/watershipmq/watership/schemas"
)

// Message returns the message that JSON describes as the output of a program does. Members
// that it lacks are empty.
func Message(text []byte) (schemas.Envelope, error) {
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&members); err != nil {
		return schemas.Envelope{}, err
	}
	in := input(schemas.Envelope{})
	delete(in, bodyText)
	for _, name := range []string{"exchange", "routing_key", "headers", "properties"} {
		if _, has := members[name]; !has {
			if members == nil {
				members = map[string]any{}
			}
			members[name] = in[name]
		}
	}
	if members[bodyJSON] == nil && members[bodyText] == nil && members[bodyBase64] == nil {
		members[bodyText] = ""
	}
	var e schemas.Envelope
	if properties, is := members["properties"].(map[string]any); is {
		e.Properties.MessageID, _ = properties["message_id"].(string)
		delete(properties, "message_id")
	}
	return output(e, in, members)
}
