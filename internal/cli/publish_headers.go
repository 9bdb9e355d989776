package cli

import (
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/replayer/edit"
)

// parseHeaders reads NAME=VALUE and NAME:TYPE=VALUE.
func parseHeaders(list []string) (amqp091.Table, error) {
	headers := amqp091.Table{}
	for _, text := range list {
		name, value, err := edit.ParseHeader(text)
		if err != nil {
			return nil, usagef("--%w", err) // it begins with the word header
		}
		if _, again := headers[name]; again {
			return nil, usagef("--header %s: the header %q is given twice", text, name)
		}
		headers[name] = value
	}
	return headers, nil
}
