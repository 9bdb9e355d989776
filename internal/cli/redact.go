package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

func newRedact(from *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redact",
		Short: "Look for redacted values, and try the rules of redaction",
		Args:  rejectUnknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRedactHash(from), newRedactTry(from))
	return cmd
}

func newRedactHash(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "hash [VALUE]",
		Short: "Print the hashes that replace a value",
		Long: `Print what redact.rules write in the place of a value, one a line, to search for it: by
each key of redact.hash_key_file. Without VALUE it is read from standard input, and is in
no history of a shell. Who can read the key file can ask this; no server does.`,
		Example: "  watership redact hash ada@example.com\n  watership search \"headers.email: $(watership redact hash ada@example.com)\"",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			value := strings.Join(args, "")
			if len(args) == 0 {
				text, err := readFile("-", cmd.InOrStdin())
				if err != nil {
					return err
				}
				value = strings.TrimRight(string(text), "\r\n")
			}
			return from.with(cmd, func(_ context.Context, sys *system.System) error {
				hashes := sys.Redactor().Hashes(value)
				switch {
				case len(sys.Settings().Redact.Rules) == 0:
					return usagef("redact.rules has no rules, so that nothing is replaced")
				case len(hashes) == 0:
					return usagef("no rule of redact.rules replaces this value")
				}
				return printer{Streams: streamsOf(cmd)}.printf("%s", strings.Join(hashes, "\n"))
			})
		},
	}
}

func newRedactTry(from *settings) *cobra.Command {
	var e schemas.Envelope
	var headers []string
	cmd := &cobra.Command{
		Use:   "try FILE",
		Short: "Show what the rules make of a message",
		Long: `Print the document that would be stored of a message with the body of a file, or of - for
standard input. Nothing is stored.`,
		Example: "  watership redact try order.json --exchange shop --key order.created --header x-customer=C-4711",
		Args:    exactArgs(1, "one file with the body of a message"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if e.Headers, err = parseHeaders(headers); err != nil {
				return err
			}
			if e.Body, err = readFile(args[0], cmd.InOrStdin()); err != nil {
				return err
			}
			return from.with(cmd, func(_ context.Context, sys *system.System) error {
				event := schemas.Event{Action: schemas.Published, Envelope: e, BodySize: len(e.Body)}
				event.EventID, event.Fingerprint, event.Time = "example", e.Fingerprint(), time.Now()
				redacted := sys.Redactor().Event(event) // no key is made for a trial
				redacted.Sealed = nil
				var document bytes.Buffer
				if err := json.Indent(&document, terminal.SafeJSON(sys.DocumentFormat().Append(nil, redacted)), "", "  "); err != nil {
					return err
				}
				return printer{Streams: streamsOf(cmd)}.printf("%s", document.Bytes())
			})
		},
	}
	cmd.Flags().StringVar(&e.Exchange, "exchange", "", "exchange of the message")
	cmd.Flags().StringVar(&e.RoutingKey, "key", "", "its routing key")
	cmd.Flags().StringArrayVar(&headers, "header", nil, "a header as NAME=VALUE or NAME:TYPE=VALUE; repeatable")
	cmd.Flags().StringVar(&e.Properties.MessageID, "message-id", "", "its message id")
	cmd.Flags().StringVar(&e.Properties.ContentType, "content-type", "", "its content type")
	return cmd
}
