package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

func newPublish(from *settings) *cobra.Command {
	var p publication
	cmd := &cobra.Command{
		Use:   "publish [FILE]...",
		Short: "Publish files, or standard input, as messages",
		Long: `publish sends each file as one message, or standard input where there is none,
and waits until the broker has it. A message that reaches no queue is an error;
on a tapped exchange the broker cannot tell, since the tap takes it.`,
		Example: `  echo '{"id": 1}' | watership publish --exchange shop --key order.created
  watership publish --exchange shop --key order.created --header tenant=acme --header retries:int=3 order.json`,
		RunE: func(cmd *cobra.Command, files []string) error {
			s, err := from.system(terminalOf(cmd))
			if err != nil {
				return err
			}
			sent, err := s.publish(cmd.Context(), p, bodies(cmd.InOrStdin(), files))
			if sent > 0 || err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "published %s\n", plural(sent, "message"))
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&p.exchange, "exchange", "", "exchange; empty is the default exchange, whose key is a queue's name")
	flags.StringVar(&p.key, "key", "", "routing key")
	flags.StringArrayVar(&p.headers, "header", nil, "header NAME=VALUE, or NAME:TYPE=VALUE with int, float, bool or time")
	flags.StringVar(&p.properties.ContentType, "content-type", "", "content type (default: application/json where the body is JSON)")
	flags.StringVar(&p.properties.MessageID, "message-id", "", "message id, of a single message")
	flags.StringVar(&p.properties.CorrelationID, "correlation-id", "", "correlation id")
	flags.StringVar(&p.properties.Type, "type", "", "type")
	flags.StringVar(&p.properties.AppID, "app-id", "", "application id")
	return cmd
}

type publication struct {
	exchange, key string
	headers       []string
	properties    schemas.Properties
}

// bodies reads files one at a time, or standard input.
func bodies(in io.Reader, files []string) []func() ([]byte, error) {
	if len(files) == 0 {
		return []func() ([]byte, error){func() ([]byte, error) { return io.ReadAll(in) }}
	}
	var list []func() ([]byte, error)
	for _, file := range files {
		list = append(list, func() ([]byte, error) {
			if file == "-" {
				return io.ReadAll(in)
			}
			return os.ReadFile(file)
		})
	}
	return list
}

func (s system) publish(ctx context.Context, p publication, bodies []func() ([]byte, error)) (sent int, err error) {
	headers, err := parseHeaders(p.headers)
	if err != nil {
		return 0, err
	}
	if p.properties.MessageID != "" && len(bodies) > 1 {
		return 0, usagef("--message-id is one id, and there are %d messages", len(bodies))
	}
	conn, err := s.connect("publish", false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(err, publisher.Close()) }()
	for _, body := range bodies {
		if err := s.publishOne(ctx, publisher, p, headers, body); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

func (s system) publishOne(ctx context.Context, publisher *rabbit.Publisher, p publication, headers amqp091.Table, read func() ([]byte, error)) error {
	body, err := read()
	if err != nil {
		return fmt.Errorf("reading a message: %w", err)
	}
	e := schemas.Envelope{Properties: p.properties, Headers: headers, Body: body}
	e.Properties.DeliveryMode = amqp091.Persistent
	if e.Properties.ContentType == "" && isJSON(body) {
		e.Properties.ContentType = "application/json"
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return publisher.Publish(ctx, rabbit.Message{Exchange: p.exchange, RoutingKey: p.key, Publishing: e.Publishing()})
}

// parseHeaders reads NAME=VALUE and NAME:TYPE=VALUE.
func parseHeaders(list []string) (amqp091.Table, error) {
	headers := amqp091.Table{}
	for _, text := range list {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return nil, usagef("--header %q: expected NAME=VALUE or NAME:TYPE=VALUE", text)
		}
		typed, err := headerValue(name, value)
		if err != nil {
			return nil, err
		}
		if at := strings.LastIndex(name, ":"); at > 0 {
			name = name[:at]
		}
		headers[name] = typed
	}
	return headers, nil
}

func headerValue(name, value string) (typed any, err error) {
	at := strings.LastIndex(name, ":")
	if at <= 0 {
		return value, nil
	}
	switch kind := name[at+1:]; kind {
	case "int":
		typed, err = strconv.ParseInt(value, 10, 64)
	case "float":
		typed, err = strconv.ParseFloat(value, 64)
	case "bool":
		typed, err = strconv.ParseBool(value)
	case "time":
		typed, err = time.Parse(time.RFC3339, value)
	default:
		return nil, usagef("--header %s: type %q: expected int, float, bool or time", name, kind)
	}
	if err != nil {
		return nil, usagef("--header %s: %q is no %s", name, value, name[at+1:])
	}
	return typed, nil
}
