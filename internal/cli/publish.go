package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/transfer"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/replayer/edit"
	"github.com/watershipmq/watership/schemas"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// publication holds the flags of `publish`.
type publication struct {
	exchange, key string
	headers       []string
	properties    schemas.Properties
	ndjson        bool
	count         int
	rate          float64

	newExchange, newKey *string // with --ndjson; nil: each message has its own
}

func newPublish(from *settings) *cobra.Command {
	var p publication
	cmd := &cobra.Command{
		Use:   "publish [FILE]...",
		Short: "Publish messages from files or standard input",
		Long: `Publish each file as one message, or standard input if no file is given, and wait
for the broker's confirm. With --ndjson, each line is a message in the format of
export, and is published to its own exchange with its own routing key, properties
and headers.

A message that reaches no queue is an error. On a tapped exchange every message
reaches the tap's queue, so this cannot be detected.`,
		Example: `  echo '{"id": 1}' | watership publish --exchange shop --key order.created
  watership publish --exchange shop --key order.created --header tenant=acme --header retries:int=3 order.json
  watership publish --exchange shop --key load.test --count 10000 --rate 500 order.json
  watership publish --ndjson acme.ndjson`,
		RunE: func(cmd *cobra.Command, files []string) error {
			if cmd.Flags().Changed("exchange") {
				p.newExchange = &p.exchange
			}
			if cmd.Flags().Changed("key") {
				p.newKey = &p.key
			}
			if err := p.validate(files); err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				sent, err := p.run(ctx, sys, streamsOf(cmd), files)
				if sent > 0 || err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "published %s\n", wording.Plural(sent, "message"))
				}
				return err
			})
		},
	}
	p.addFlags(cmd)
	return cmd
}

func (p *publication) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.exchange, "exchange", "", "exchange; empty: the default exchange, which routes by queue name")
	flags.StringVar(&p.key, "key", "", "routing key")
	flags.StringArrayVar(&p.headers, "header", nil, "header NAME=VALUE, or NAME:TYPE=VALUE with "+strings.Join(edit.HeaderTypes(), ", "))
	flags.StringVar(&p.properties.ContentType, "content-type", "", "content type (default: application/json if the body is JSON)")
	flags.StringVar(&p.properties.MessageID, "message-id", "", "message id, of a single message")
	flags.StringVar(&p.properties.CorrelationID, "correlation-id", "", "correlation id")
	flags.StringVar(&p.properties.Type, "type", "", "type")
	flags.StringVar(&p.properties.AppID, "app-id", "", "application id")
	flags.BoolVar(&p.ndjson, "ndjson", false, "read messages in the format of export, one per line")
	flags.IntVar(&p.count, "count", 1, "number of times to publish each message")
	flags.Float64Var(&p.rate, "rate", 0, "maximum messages per second; 0: no limit")
}

func (p publication) validate(files []string) error {
	messages := max(1, len(files)) * p.count
	_, err := parseHeaders(p.headers)
	switch {
	case err != nil:
		return err
	case p.count < 1:
		return usagef("--count %d: expected 1 or more", p.count)
	case p.rate < 0:
		return usagef("--rate %g: expected 0 (no limit) or more", p.rate)
	case p.properties.MessageID != "" && messages > 1:
		return usagef("--message-id is one id, and there are %d messages", messages)
	case p.ndjson && (p.properties != schemas.Properties{} || len(p.headers) > 0):
		return usagef("--ndjson: each message has its own properties and headers; only --exchange and --key can be given")
	}
	return nil
}

func (p publication) run(ctx context.Context, sys backend, t terminal.Streams, files []string) (sent int, err error) {
	messages, total := p.fileMessages(t.In, files), max(1, len(files))*p.count
	if p.ndjson {
		messages, total = p.exportedMessages(t.In, files), 0
	}
	bar := terminal.NewBar(t.Err, total)
	defer bar.End()
	return sys.Publish(ctx, messages, p.rate, bar.Show)
}

// fileMessages yields a message with the content of each file, or of standard input,
// --count times.
func (p publication) fileMessages(in io.Reader, files []string) iter.Seq2[schemas.Envelope, error] {
	headers, _ := parseHeaders(p.headers) // validate has checked them
	return func(yield func(schemas.Envelope, error) bool) {
		for _, file := range orStandardInput(files) {
			body, err := readFile(file, in)
			if err != nil {
				yield(schemas.Envelope{}, fmt.Errorf("reading a message: %w", err))
				return
			}
			message := transfer.Complete(schemas.Envelope{Exchange: p.exchange, RoutingKey: p.key, Properties: p.properties, Headers: headers, Body: body})
			for range p.count {
				if !yield(message, nil) {
					return
				}
			}
		}
	}
}

func orStandardInput(files []string) []string {
	if len(files) == 0 {
		return []string{"-"}
	}
	return files
}

// exportedMessages yields the messages of files that export wrote, --count times.
func (p publication) exportedMessages(in io.Reader, files []string) iter.Seq2[schemas.Envelope, error] {
	return func(yield func(schemas.Envelope, error) bool) {
		for _, file := range orStandardInput(files) {
			if !p.yieldExported(file, in, yield) {
				return
			}
		}
	}
}

func (p publication) yieldExported(name string, in io.Reader, yield func(schemas.Envelope, error) bool) bool {
	in, end, err := openInput(in, []string{name})
	if err != nil {
		return yield(schemas.Envelope{}, err)
	}
	defer func() { _ = end() }()
	for message, err := range transfer.Envelopes(in) {
		if err != nil {
			yield(schemas.Envelope{}, err)
			return false
		}
		if p.newExchange != nil {
			message.Exchange = *p.newExchange
		}
		if p.newKey != nil {
			message.RoutingKey = *p.newKey
		}
		for range p.count {
			if !yield(message, nil) {
				return false
			}
		}
	}
	return true
}

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
