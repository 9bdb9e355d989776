package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/replayer/edit"
	"github.com/watershipmq/watership/schemas"
)

// publication holds the flags of `publish`.
type publication struct {
	exchange, key string
	headers       []string
	properties    schemas.Properties
	ndjson        bool
	count         int
	rate          float64

	ownExchange, ownKey bool // with --ndjson: each message has its own
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
			p.ownExchange, p.ownKey = !cmd.Flags().Changed("exchange"), !cmd.Flags().Changed("key")
			if err := p.validate(files); err != nil {
				return err
			}
			return from.with(cmd, func(ctx context.Context, a *app.App) error {
				sent, err := p.run(ctx, a, streamsOf(cmd), files)
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

func (p publication) run(ctx context.Context, a *app.App, t terminal.Streams, files []string) (sent int, err error) {
	messages, total := p.bodies(t.In, files), max(1, len(files))*p.count
	if p.ndjson {
		messages, total = p.envelopes(t.In, files, a.Login()), 0
	}
	bar := terminal.NewBar(t.Err, total)
	defer bar.End()
	publisher, err := a.Publisher(ctx)
	if err != nil {
		return 0, err
	}
	return send(ctx, publisher, messages, p.rate, bar.Show)
}
