// Package shadowhttp calls a candidate version of an HTTP service in a shadow replay, as the
// handler of a route calls the service.
package shadowhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/replayer/shadow"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

const (
	// Header marks the requests, so that the candidate has no effects.
	Header = "Watership-Shadow"

	// ContentType is the type of a response that lists the messages which the candidate would
	// publish: a JSON array of messages, see transform.Message.
	ContentType = "application/vnd.watership.messages+json"

	maxList = 16 << 20 // bytes of such a response
)

// Config configures the requests.
type Config struct {
	URL     string
	Timeout time.Duration

	// Of returns the configuration of the handler of a queue, whose method, headers, answers
	// and secrets the requests have.
	Of func(queue string) webhook.Config
}

// New returns a handler that calls the candidate.
func New(cfg Config) (shadow.Handler, error) {
	client := &http.Client{Transport: recorder{http.DefaultTransport.(*http.Transport).Clone()}}
	of := func(queue string) webhook.Config {
		route := cfg.Of(queue)
		route.URL, route.Timeout, route.Client, route.Hosts, route.PrivateNetworks = cfg.URL, cfg.Timeout, client, nil, nil
		return route
	}
	if err := of("").Validate(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, m shadow.Message) (shadow.Result, error) {
		var list list
		msg := message.NewMessage(m.EventID, m.Envelope.Body)
		msg.SetContext(context.WithValue(ctx, listKey{}, &list))
		if _, err := webhook.New(of(m.Queue))(msg); err != nil {
			return shadow.Result{}, err
		}
		outgoing, err := list.messages()
		if err != nil {
			err = retry.Permanent(fmt.Errorf("the list of outgoing messages: %w", err))
		}
		return shadow.Result{Outgoing: outgoing, Unlisted: !list.given}, err
	}, nil
}

type listKey struct{}

// list is the body of a response that lists messages.
type list struct {
	given bool
	text  []byte
}

func (l *list) messages() (outgoing []schemas.Envelope, err error) {
	if !l.given {
		return nil, nil
	}
	if len(l.text) > maxList {
		return nil, fmt.Errorf("it has more than %d MiB", maxList>>20)
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(l.text, &elements); err != nil {
		return nil, err
	}
	for i, text := range elements {
		e, err := transform.Message(text)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		outgoing = append(outgoing, e)
	}
	return outgoing, nil
}

// recorder marks requests, and reads the lists of their responses.
type recorder struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set(Header, "1")
	response, err := r.RoundTripper.RoundTrip(request)
	to, is := request.Context().Value(listKey{}).(*list)
	if err != nil || !is {
		return response, err
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != ContentType {
		return response, nil
	}
	to.given = true
	to.text, err = io.ReadAll(io.LimitReader(response.Body, maxList+1))
	if err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(to.text), response.Body), response.Body}
	return response, nil
}
