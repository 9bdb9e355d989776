package messages

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// The operations of this file.
var (
	GetMessages = operation.Declare[MessagesInput, MessagesOutput](operation.Operation{
		Method: http.MethodGet, Path: "/messages/{id}", ID: "getMessages", Tag: "messages", Role: access.Viewer, Reads: true,
		Summary: "Get the messages with an id, and their histories",
	})
	GetBody = operation.Declare[BodyInput, BodyOutput](operation.Operation{
		Method: http.MethodGet, Path: "/messages/{id}/body", ID: "getBody", Tag: "messages", Role: access.Viewer, Reads: true,
		Summary: "Download the body of a message", Text: "The exact bytes, for callers that may read bodies.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The body", Content: map[string]*huma.MediaType{octetStream: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
		}},
	})
	GetConversation = operation.Declare[ConversationInput, ConversationOutput](operation.Operation{
		Method: http.MethodGet, Path: "/messages/{id}/conversation", ID: "getConversation", Tag: "messages", Role: access.Viewer,
		Summary: "Get the messages that belong together",
		Text:    "Messages with the same correlation id, and messages that handlers published for one another.",
	})
)

const octetStream = "application/octet-stream"

// MessagesInput is the input of GetMessages.
type MessagesInput struct {
	ID       string `path:"id" maxLength:"1024" doc:"Message id, fingerprint, event id, or the id that a message got at its first failure"`
	WithBody bool   `query:"body" doc:"Return bodies, too, if the caller may read them"`
	Original bool   `query:"original" doc:"Return the message as it was published, if the caller may read originals: the id is that of one message, and the header Watership-Reason says why"`
}

// MessagesOutput is the output of GetMessages.
type MessagesOutput struct{ Body Messages }

// Messages are the messages with an id.
type Messages struct {
	Messages []Message `json:"messages" nullable:"false"`
	More     bool      `json:"more" doc:"There are more messages with the id"`
}

// Message is a message with its history.
type Message struct {
	Event   eventjson.Document   `json:"event" doc:"An event with the whole message, if there is one"`
	History []eventjson.Document `json:"history" nullable:"false" doc:"The newest events, in order, without headers and bodies"`
	More    bool                 `json:"more" doc:"There are older events"`

	Queues []history.AtQueue `json:"queues" nullable:"false" doc:"Where the message is now: its state at each queue that reported about it"`
}

func (o operations) getMessages(ctx context.Context, in *MessagesInput) (*MessagesOutput, error) {
	if in.WithBody {
		if err := access.ReadBodies(ctx, in.ID); err != nil {
			return nil, err
		}
	}
	store, err := eventfilter.Visible(ctx, o.System)
	if err != nil {
		return nil, err
	}
	found, err := history.Find(ctx, store, in.ID)
	if err != nil {
		return nil, err
	}
	out := &MessagesOutput{Messages{Messages: []Message{}, More: found.More}}
	documentOf := o.documentOf(ctx)
	for _, life := range found.List {
		whole, err := life.Whole(ctx, store)
		if in.Original {
			whole, err = wholeMessages{o.System}.original(ctx, in.ID)
		}
		if err != nil {
			return nil, err
		}
		if !in.WithBody {
			whole.Envelope.Body = nil
		}
		queues, err := life.Queues(ctx, store, o.reporters)
		if err != nil {
			return nil, err
		}
		message := Message{Event: documentOf(whole), More: life.More, History: []eventjson.Document{}, Queues: queues}
		for _, e := range life.Events {
			message.History = append(message.History, documentOf(e))
		}
		out.Body.Messages = append(out.Body.Messages, message)
	}
	return out, nil
}

// reporters looks up which consumers of some queues report `handled` events.
func (o operations) reporters(ctx context.Context, of []string) (map[string]bool, error) {
	failures, err := failures.Unresolved(ctx, o.System)
	if err != nil {
		return nil, err
	}
	return failures.Reporters(ctx, of)
}

// BodyInput is the input of GetBody.
type BodyInput struct {
	ID       string `path:"id" maxLength:"1024" doc:"Id of one message; its fingerprint, if several have the same id"`
	Original bool   `query:"original" doc:"Return the body as it was published, if the caller may read originals, too: the header Watership-Reason says why"`
}

// BodyOutput is the output of GetBody.
type BodyOutput struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	Disposition string `header:"Content-Disposition"`
	Body        []byte
}

func (o operations) getBody(ctx context.Context, in *BodyInput) (*BodyOutput, error) {
	if err := access.ReadBodies(ctx, in.ID); err != nil {
		return nil, err
	}
	read := wholeMessages{o.System}.stored
	if in.Original {
		read = wholeMessages{o.System}.original
	}
	event, err := read(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	body, err := bodyOf(event)
	return &BodyOutput{octetStream, `attachment; filename="body.bin"`, body}, err
}

// wholeMessages reads single messages.
type wholeMessages struct{ system *system.System }

// stored returns an event, with all fields, of the only message with an id that the
// caller may see.
func (m wholeMessages) stored(ctx context.Context, id string) (schemas.Event, error) {
	store, err := eventfilter.Visible(ctx, m.system)
	if err != nil {
		return schemas.Event{}, err
	}
	found, err := history.Find(ctx, store, id)
	if err != nil {
		return schemas.Event{}, err
	}
	if len(found.List) > 1 {
		return schemas.Event{}, &problem.Problem{
			Code: code.AmbiguousID, Detail: fmt.Sprintf("%q is the id of several messages", id),
			Remedy: "Give the fingerprint of one: GET /messages/{id} lists them.",
		}
	}
	return found.List[0].Whole(ctx, store)
}

func bodyOf(e schemas.Event) ([]byte, error) {
	if e.BodyIn != schemas.BodyHere {
		return nil, problem.NotFound(fmt.Sprintf("no event of message %s has its body", e.Fingerprint))
	}
	return e.Envelope.Body, nil
}

// ConversationOutput is the output of GetConversation.
type ConversationOutput struct{ Body Conversation }

// Conversation has messages that belong together.
type Conversation struct {
	Messages []ConversationMessage `json:"messages" nullable:"false" doc:"By the time of their first events"`
	More     bool                  `json:"more" doc:"There are more"`
}

// ConversationMessage is a message of a conversation.
type ConversationMessage struct {
	Fingerprint   string               `json:"fingerprint"`
	MessageID     string               `json:"message_id,omitempty"`
	CorrelationID string               `json:"correlation_id,omitempty"`
	Parent        string               `json:"parent,omitempty" doc:"Fingerprint of the message whose handler published this one"`
	Exchange      string               `json:"exchange"`
	RoutingKey    string               `json:"routing_key"`
	Type          string               `json:"type,omitempty"`
	First         time.Time            `json:"first" doc:"Time of the first event"`
	Last          time.Time            `json:"last" doc:"Time of the last event"`
	State         history.MessageState `json:"state" enum:"failed,waiting,replaying,replayed,handled,discarded,published" doc:"At the queue that needs most attention; published: no consumer has reported about it"`

	Actions []schemas.Action `json:"actions" nullable:"false" doc:"Of its events, in order"`
	Queues  []string         `json:"queues" nullable:"false" doc:"Queues that handled it or failed"`
}

// ConversationInput is the input of GetConversation.
type ConversationInput struct {
	ID string `path:"id" maxLength:"1024" doc:"Id of a message or of one of its events"`
}

func (o operations) getConversation(ctx context.Context, in *ConversationInput) (*ConversationOutput, error) {
	store, err := eventfilter.Visible(ctx, o.System)
	if err != nil {
		return nil, err
	}
	found, err := history.FindConversation(ctx, store, in.ID, pipeline.HeaderCausation, o.reporters)
	if err != nil {
		return nil, err
	}
	out := &ConversationOutput{Conversation{Messages: make([]ConversationMessage, len(found.Messages)), More: found.More}}
	for i, m := range found.Messages {
		m.Queues = append([]string{}, m.Queues...)
		out.Body.Messages[i] = ConversationMessage(m)
	}
	return out, nil
}
