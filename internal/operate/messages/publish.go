package messages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/operate/transfer"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/idempotency"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// The operations of this file.
var (
	PublishMessage = operation.Declare[PublishInput, PublishOutput](operation.Operation{
		Method: http.MethodPost, Path: "/messages", ID: "publishMessage", Tag: "messages", Role: access.Operator, Status: http.StatusCreated,
		Summary: "Publish a message, and wait for the confirm of RabbitMQ",
		Text: "A message that reaches no queue is a problem. On a tapped exchange every message reaches the queue of the tap, so that this cannot be detected. " +
			"With an Idempotency-Key and without message_id, the message id is derived from the key, so that consumers recognise a message that was published twice.",
	})
	PublishMessages = operation.Declare[BatchInput, BatchOutput](operation.Operation{
		Method: http.MethodPost, Path: "/messages/batch", ID: "publishMessages", Tag: "messages", Role: access.Operator, Status: http.StatusCreated,
		Timeout: 2 * time.Minute, MaxBody: maxBatchBody,
		Summary: "Publish messages in the format of the export, and wait for the confirms of RabbitMQ",
		Text: "One document per line. A message goes to its own exchange with its own routing key, properties and headers, without a user id of another login. " +
			"Nothing is published unless all documents can be read; the first message that is not confirmed ends the request, and published says how many are.",
	})
)

// PublishInput is the input of PublishMessage.
type PublishInput struct {
	operation.IdempotencyKey
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

	Typed []map[string]json.RawMessage `json:"typed_headers,omitempty" nullable:"false" doc:"More headers, each such as {\"key\": \"attempts\", \"int32\": 3}: the value has the name of its AMQP type, which is string, string64 (base64), bool, int8 to int64, uint8 to uint32, float32, float64, decimal, time (seconds), bytes (base64), table, array or void"`

	Original     string `json:"original,omitempty" maxLength:"1024" doc:"Id of the message of which this one is a copy. The header causation-id gets its fingerprint, so that both are in one conversation"`
	OriginalBody bool   `json:"original_body,omitempty" doc:"Send the body of the original, for callers that may read bodies"`
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
	Expiration      string `json:"expiration,omitempty" pattern:"^[0-9]{1,10}$" doc:"Milliseconds after which a queue drops the message"`

	Timestamp time.Time `json:"timestamp,omitzero" doc:"Sent in whole seconds"`
}

// PublishOutput is the output of PublishMessage.
type PublishOutput struct{ Body Published }

// Published is a message that RabbitMQ has confirmed.
type Published struct {
	MessageID   string `json:"message_id,omitempty"`
	Fingerprint string `json:"fingerprint" doc:"Finds the message, if its exchange is tapped"`
}

func (o operations) publishMessage(ctx context.Context, in *PublishInput) (*PublishOutput, error) {
	access.Describe(ctx, access.Action{Name: "publish", Object: in.Body.Exchange + " " + in.Body.RoutingKey})
	caller := access.FromContext(ctx)
	envelope, err := in.Body.envelope()
	if err == nil {
		err = o.addOriginal(ctx, in.Body, &envelope)
	}
	if err != nil {
		return nil, err
	}
	if err := checkPublication(o.System.Topology(), caller, envelope); err != nil {
		return nil, err
	}
	if envelope.Properties.MessageID == "" && in.Key != "" {
		envelope.Properties.MessageID = idempotency.Digest(string(caller.Method), caller.Name, in.Key)[:32]
	}
	publisher, err := o.System.Publisher(ctx)
	if err != nil {
		return nil, err
	}
	envelope = transfer.Complete(envelope)
	_, err = transfer.Publish(ctx, publisher, all([]rabbit.Message{transfer.NewMessage(envelope)}), 0, func(int) {})
	if err != nil {
		return nil, publishProblem(err)
	}
	return &PublishOutput{Published{envelope.Properties.MessageID, o.System.Settings().Fingerprint.Of(envelope)}}, nil
}

const maxBatchBody = 32 << 20

// BatchInput is the input of PublishMessages.
type BatchInput struct {
	operation.IdempotencyKey
	RawBody []byte `contentType:"application/x-ndjson"`
}

// BatchOutput is the output of PublishMessages.
type BatchOutput struct{ Body Batch }

// Batch has the messages of a request that RabbitMQ has confirmed.
type Batch struct {
	Published int `json:"published"`
}

func (o operations) publishMessages(ctx context.Context, in *BatchInput) (*BatchOutput, error) {
	access.Describe(ctx, access.Action{Name: "publish"})
	var messages []rabbit.Message
	for e, err := range transfer.Envelopes(bytes.NewReader(in.RawBody)) {
		if err != nil {
			return nil, problem.BadRequest(err.Error(), "")
		}
		if err := checkPublication(o.System.Topology(), access.FromContext(ctx), e); err != nil {
			return nil, err
		}
		messages = append(messages, transfer.ForLogin(e, o.System.Login()))
	}
	if len(messages) == 0 {
		return nil, problem.BadRequest("expected documents, one per line", "")
	}
	access.Describe(ctx, access.Action{Object: fmt.Sprintf("%s, the first to %s %s", wording.Plural(len(messages), "message"), messages[0].Exchange, messages[0].RoutingKey)})
	publisher, err := o.System.Publisher(ctx)
	if err != nil {
		return nil, err
	}
	published, err := transfer.Publish(ctx, publisher, all(messages), 0, func(int) {})
	if err != nil {
		p := problem.New(ctx, publishProblem(err))
		p.Done = published
		return nil, p
	}
	return &BatchOutput{Batch{published}}, nil
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
	headers, err := transfer.Headers(p.Headers, p.Typed)
	if err != nil {
		return schemas.Envelope{}, problem.BadRequest("headers: "+err.Error(), "")
	}
	return schemas.Envelope{
		Exchange: p.Exchange, RoutingKey: p.RoutingKey, Headers: headers, Body: body,
		Properties: schemas.Properties{
			ContentType: p.Properties.ContentType, ContentEncoding: p.Properties.ContentEncoding, MessageID: p.Properties.MessageID,
			CorrelationID: p.Properties.CorrelationID, ReplyTo: p.Properties.ReplyTo, Type: p.Properties.Type, AppID: p.Properties.AppID,
			Priority: p.Properties.Priority, Expiration: p.Properties.Expiration, Timestamp: p.Properties.Timestamp,
		},
	}, nil
}

// addOriginal adds to a copy the link to its original, and its body.
func (o operations) addOriginal(ctx context.Context, p Publication, e *schemas.Envelope) error {
	switch {
	case p.Original == "" && p.OriginalBody:
		return problem.BadRequest("original_body is for copies", "Give the id of the original.")
	case p.OriginalBody && len(e.Body) > 0:
		return problem.BadRequest("original_body cannot be combined with text or base64", "")
	case p.Original == "":
		return nil
	case p.OriginalBody:
		if err := access.ReadBodies(ctx, p.Original); err != nil {
			return err
		}
	}
	original, err := wholeMessages{o.System}.stored(ctx, p.Original)
	if err == nil && p.OriginalBody {
		e.Body, err = originalBody(ctx, o.System.Redactor(), original)
	}
	if err == nil {
		access.Describe(ctx, access.Action{Object: fmt.Sprintf("%s %s, a copy of %s", p.Exchange, p.RoutingKey, original.Fingerprint)})
		e.Headers[pipeline.HeaderCausation] = original.Fingerprint
	}
	return err
}

// originalBody returns the body of an event as it was published.
func originalBody(ctx context.Context, opener privacy.Opener, original schemas.Event) ([]byte, error) {
	if err := opener.Open(ctx, &original); err != nil {
		return nil, err
	}
	return bodyOf(original)
}

// checkPublication refuses exchanges and queues that are Watership's own, since its
// consumers would read the message as an event, and those that the caller may not use.
func checkPublication(topology schemas.Topology, caller access.Identity, e schemas.Envelope) error {
	if topology.Owns(e.Exchange) || e.Exchange == "" && topology.Owns(e.RoutingKey) {
		return problem.Forbidden("the exchange or queue is one of Watership's own", "Choose one of your system.")
	}
	for name := range e.Headers {
		if IsCopyHeader(name) && (caller.Limited() || e.Exchange == "") {
			return problem.Forbidden("the headers CC and BCC reach other queues", "Publish a message for each of them.")
		}
		if strings.HasPrefix(name, "watership-") {
			return problem.BadRequest("headers that begin with watership- are Watership's own", "Choose another name.")
		}
	}
	return CheckRoute(caller, e.Exchange, e.RoutingKey)
}

func publishProblem(err error) error {
	var unroutable *rabbit.UnroutableError
	var refused *rabbit.RefusedError
	switch {
	case errors.As(err, &unroutable):
		return &problem.Problem{Code: code.Unroutable, Detail: err.Error(), Remedy: "Bind a queue to the exchange, or change the routing key."}
	case errors.As(err, &refused):
		return problem.BadRequest(err.Error(), "")
	}
	return err
}
