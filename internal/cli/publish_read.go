package cli

import (
	"fmt"
	"io"
	"iter"
	"os"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/indent"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/transfer"
	"github.com/watershipmq/watership/schemas"
)

// bodies yields the content of each file, or of standard input, --count times.
func (p publication) bodies(in io.Reader, files []string) iter.Seq2[rabbit.Message, error] {
	if len(files) == 0 {
		files = []string{"-"}
	}
	return func(yield func(rabbit.Message, error) bool) {
		for _, file := range files {
			body, err := readFile(file, in)
			if err != nil {
				yield(rabbit.Message{}, fmt.Errorf("reading a message: %w", err))
				return
			}
			for range p.count {
				if !yield(p.message(body), nil) {
					return
				}
			}
		}
	}
}

func (p publication) message(body []byte) rabbit.Message {
	headers, _ := parseHeaders(p.headers) // validate has checked them
	e := schemas.Envelope{Properties: p.properties, Headers: headers, Body: body}
	e.Properties.DeliveryMode = amqp091.Persistent
	if e.Properties.ContentType == "" && indent.IsJSON(body) {
		e.Properties.ContentType = "application/json"
	}
	return rabbit.Message{Exchange: p.exchange, RoutingKey: p.key, Publishing: e.Publishing()}
}

// envelopes yields the messages that export wrote. The broker would refuse a user id
// other than the login's, so it is left out.
func (p publication) envelopes(in io.Reader, files []string, login string) iter.Seq2[rabbit.Message, error] {
	if len(files) == 0 {
		files = []string{"-"}
	}
	return func(yield func(rabbit.Message, error) bool) {
		for _, file := range files {
			if !p.envelopesOf(file, in, login, yield) {
				return
			}
		}
	}
}

func (p publication) envelopesOf(name string, in io.Reader, login string, yield func(rabbit.Message, error) bool) bool {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return yield(rabbit.Message{}, err)
		}
		defer file.Close()
		in = file
	}
	for event, err := range transfer.Read(in) {
		if err == nil && event.BodyIn != schemas.BodyHere {
			err = fmt.Errorf("event %s was recorded without its body: export the published or poisoned event", event.EventID)
		}
		if err != nil {
			return yield(rabbit.Message{}, err)
		}
		e := event.Envelope
		if e.Properties.UserID != login {
			e.Properties.UserID = ""
		}
		if !p.ownExchange {
			e.Exchange = p.exchange
		}
		if !p.ownKey {
			e.RoutingKey = p.key
		}
		for range p.count {
			if !yield(rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}, nil) {
				return false
			}
		}
	}
	return true
}
