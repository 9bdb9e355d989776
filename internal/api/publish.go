package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/idempotency"
	"github.com/watershipmq/watership/internal/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/transfer"
	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/schemas"
)

func (a *API) registerPublish() {
	register(a, operation{
		method: http.MethodPost, path: "/messages", id: "publishMessage", tag: "messages", role: access.Operator, status: http.StatusCreated,
		summary: "Publish a message, and wait for the confirm of RabbitMQ",
		text: "A message that reaches no queue is a problem. On a tapped exchange every message reaches the queue of the tap, so that this cannot be detected. " +
			"With an Idempotency-Key and without message_id, the message id is derived from the key, so that consumers recognise a message that was published twice.",
	}, a.publishMessage)
	register(a, operation{
		method: http.MethodPost, path: "/messages/batch", id: "publishMessages", tag: "messages", role: access.Operator, status: http.StatusCreated,
		timeout: 2 * time.Minute, maxBody: maxBatchBody,
		summary: "Publish messages in the format of the export, and wait for the confirms of RabbitMQ",
		text: "One document per line. A message goes to its own exchange with its own routing key, properties and headers, without a user id of another login. " +
			"Nothing is published unless all documents can be read; the first message that is not confirmed ends the request, and published says how many are.",
	}, a.publishMessages)
}

type publishInput struct {
	IdempotencyKey
	Body Publication
}

// Publication is a message to publish.
type Publication struct {
	Exchange   string         `json:"exchange" maxLength:"255" doc:"Empty: the default exchange, which routes by queue name"`
	RoutingKey string         `json:"routing_key,omitempty" maxLength:"255"`
	Headers    map[string]any `json:"headers,omitempty" doc:"Texts, numbers, booleans, null, and objects and arrays of them; whole numbers are sent as integers"`
	Properties Properties     `json:"properties,omitzero"`
	Text       string         `json:"text,omitempty" doc:"The body as text"`
	Base64     []byte         `json:"base64,omitempty" doc:"The body as base64, instead of text"`
}

// Properties are the properties of a message to publish.
type Properties struct {
	ContentType     string `json:"content_type,omitempty" maxLength:"255" doc:"Default: application/json if the body is JSON"`
	ContentEncoding string `json:"content_encoding,omitempty" maxLength:"255"`
	MessageID       string `json:"message_id,omitempty" maxLength:"255"`
	CorrelationID   string `json:"correlation_id,omitempty" maxLength:"255"`
	ReplyTo         string `json:"reply_to,omitempty" maxLength:"255"`
	Type            string `json:"type,omitempty" maxLength:"255"`
	AppID           string `json:"app_id,omitempty" maxLength:"255"`
	Priority        uint8  `json:"priority,omitempty" maximum:"255"`
}

type publishOutput struct{ Body Published }

// Published is a message that RabbitMQ has confirmed.
type Published struct {
	MessageID   string `json:"message_id,omitempty"`
	Fingerprint string `json:"fingerprint" doc:"Finds the message, if its exchange is tapped"`
}

func (a *API) publishMessage(ctx context.Context, in *publishInput) (*publishOutput, error) {
	access.Describe(ctx, access.Action{Name: "publish", Object: in.Body.Exchange + " " + in.Body.RoutingKey})
	caller := access.FromContext(ctx)
	envelope, err := in.Body.envelope()
	if err != nil {
		return nil, err
	}
	if err := a.checkPublication(caller, envelope); err != nil {
		return nil, err
	}
	if envelope.Properties.MessageID == "" && in.Key != "" {
		envelope.Properties.MessageID = idempotency.Digest(string(caller.Method), caller.Name, in.Key)[:32]
	}
	publisher, err := a.app.Publisher(ctx)
	if err != nil {
		return nil, err
	}
	envelope = transfer.Complete(envelope)
	_, err = transfer.Publish(ctx, publisher, all([]rabbit.Message{transfer.NewMessage(envelope)}), 0, func(int) {})
	if err != nil {
		return nil, publishProblem(err)
	}
	return &publishOutput{Published{envelope.Properties.MessageID, a.app.Settings().Fingerprint.Of(envelope)}}, nil
}

const maxBatchBody = 32 << 20

type batchInput struct {
	IdempotencyKey
	RawBody []byte `contentType:"application/x-ndjson"`
}

type batchOutput struct{ Body Batch }

// Batch has the messages of a request that RabbitMQ has confirmed.
type Batch struct {
	Published int `json:"published"`
}

func (a *API) publishMessages(ctx context.Context, in *batchInput) (*batchOutput, error) {
	access.Describe(ctx, access.Action{Name: "publish"})
	var messages []rabbit.Message
	for e, err := range transfer.Envelopes(bytes.NewReader(in.RawBody)) {
		if err != nil {
			return nil, problem.BadRequest(err.Error(), "")
		}
		if err := a.checkPublication(access.FromContext(ctx), e); err != nil {
			return nil, err
		}
		messages = append(messages, transfer.ForLogin(e, a.app.Login()))
	}
	if len(messages) == 0 {
		return nil, problem.BadRequest("expected documents, one per line", "")
	}
	access.Describe(ctx, access.Action{Object: fmt.Sprintf("%s, the first to %s %s", wording.Plural(len(messages), "message"), messages[0].Exchange, messages[0].RoutingKey)})
	publisher, err := a.app.Publisher(ctx)
	if err != nil {
		return nil, err
	}
	published, err := transfer.Publish(ctx, publisher, all(messages), 0, func(int) {})
	if err != nil {
		p := problem.New(ctx, publishProblem(err))
		p.Published = published
		return nil, p
	}
	return &batchOutput{Batch{published}}, nil
}

func all(messages []rabbit.Message) iter.Seq2[rabbit.Message, error] {
	return func(yield func(rabbit.Message, error) bool) {
		for _, m := range messages {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (p Publication) envelope() (schemas.Envelope, error) {
	body := p.Base64
	if p.Text != "" {
		if len(body) > 0 {
			return schemas.Envelope{}, problem.BadRequest("text and base64 cannot be combined", "")
		}
		body = []byte(p.Text)
	}
	headers, err := tableOf(p.Headers)
	return schemas.Envelope{
		Exchange: p.Exchange, RoutingKey: p.RoutingKey, Headers: headers, Body: body,
		Properties: schemas.Properties{
			ContentType: p.Properties.ContentType, ContentEncoding: p.Properties.ContentEncoding, MessageID: p.Properties.MessageID,
			CorrelationID: p.Properties.CorrelationID, ReplyTo: p.Properties.ReplyTo, Type: p.Properties.Type, AppID: p.Properties.AppID,
			Priority: p.Properties.Priority,
		},
	}, err
}

// tableOf converts an object of JSON to an AMQP table.
func tableOf(object map[string]any) (amqp091.Table, error) {
	table := amqp091.Table{}
	for name, value := range object {
		if len(name) > 255 {
			return nil, problem.BadRequest("headers: a name is longer than 255 bytes", "")
		}
		converted, err := valueOf(value)
		if err != nil {
			return nil, err
		}
		table[name] = converted
	}
	return table, nil
}

func valueOf(value any) (any, error) {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), nil
		}
		return v, nil
	case map[string]any:
		return tableOf(v)
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			var err error
			if list[i], err = valueOf(element); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return value, nil
}

// checkPublication refuses exchanges and queues that are Watership's own, since its
// consumers would read the message as an event, and those that the caller may not use.
func (a *API) checkPublication(caller access.Identity, e schemas.Envelope) error {
	topology := a.app.Topology()
	if topology.Owns(e.Exchange) || e.Exchange == "" && topology.Owns(e.RoutingKey) {
		return problem.Forbidden("the exchange or queue is one of Watership's own", "Choose one of your system.")
	}
	for name := range e.Headers {
		if isCopyHeader(name) && (caller.Limited() || e.Exchange == "") {
			return problem.Forbidden("the headers CC and BCC reach other queues", "Publish a message for each of them.")
		}
		if strings.HasPrefix(name, "watership-") {
			return problem.BadRequest("headers that begin with watership- are Watership's own", "Choose another name.")
		}
	}
	return a.checkRoute(caller, e.Exchange, e.RoutingKey)
}

func publishProblem(err error) error {
	var unroutable *rabbit.UnroutableError
	var nacked *rabbit.NackedError
	var refused *rabbit.RefusedError
	switch {
	case errors.As(err, &unroutable):
		return &problem.Problem{Status: http.StatusConflict, Detail: err.Error(), Remedy: "Bind a queue to the exchange, or change the routing key."}
	case errors.As(err, &nacked):
		return &problem.Problem{Status: http.StatusServiceUnavailable, Detail: err.Error(), Remedy: "Wait until the queue has room.", RetryAfter: problem.RetryLater}
	case errors.As(err, &refused):
		return problem.BadRequest(err.Error(), "")
	}
	return err
}
