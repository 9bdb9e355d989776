package schemas

import (
	"encoding/json"
	"fmt"
	"time"
)

// ParseDocument reads the source of a document back into its event. It refuses
// what is no document of ours and what a newer version wrote.
func ParseDocument(source []byte) (Event, error) {
	var stored storedDocument
	if err := json.Unmarshal(source, &stored); err != nil {
		return Event{}, fmt.Errorf("reading a document: %w", err)
	}
	switch version := stored.Watership.Version; {
	case version == 0:
		return Event{}, fmt.Errorf("document %q has no watership.version: it was not written by Watership", stored.Event.ID)
	case version > DocumentVersion:
		return Event{}, fmt.Errorf("document %q has version %d, this Watership knows up to %d: upgrade it",
			stored.Event.ID, version, DocumentVersion)
	}
	envelope, err := stored.AMQP.envelope()
	if err != nil {
		return Event{}, fmt.Errorf("reading document %q: %w", stored.Event.ID, err)
	}
	envelope.Body = stored.Body.bytes()
	return stored.event(envelope), nil
}

// storedDocument is what ParseDocument reads; the rest is there for searching.
type storedDocument struct {
	Timestamp time.Time `json:"@timestamp"`
	Event     struct {
		ID       string        `json:"id"`
		Action   Action        `json:"action"`
		Duration time.Duration `json:"duration"`
		Sequence int64         `json:"sequence"`
		Ingested time.Time     `json:"ingested"`
	} `json:"event"`
	Messaging struct {
		Message struct {
			Body struct {
				Size int `json:"size"`
			} `json:"body"`
		} `json:"message"`
	} `json:"messaging"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Stack   string `json:"stack_trace"`
	} `json:"error"`
	Watership storedState   `json:"watership"`
	AMQP      storedMessage `json:"amqp"`
	Body      storedBody    `json:"body"`
}

type storedState struct {
	Version     int             `json:"version"`
	Source      string          `json:"source"`
	VHost       string          `json:"vhost"`
	Fingerprint string          `json:"fingerprint"`
	Message     string          `json:"message"`
	Parent      string          `json:"parent"`
	Queue       string          `json:"queue"`
	Attempt     int             `json:"attempt"`
	Delay       int64           `json:"delay"`
	Class       string          `json:"class"`
	TimeSource  TimeSource      `json:"time_source"`
	FirstFailed time.Time       `json:"first_failed"`
	Attempts    []FailedAttempt `json:"attempts"`
	BodyIn      BodyPlace       `json:"body_in"`
	Quarantined Action          `json:"quarantined_action"`
	Replay      struct {
		Job string `json:"job"`
		Of  string `json:"of"`
	} `json:"replay"`
}

func (d storedDocument) event(e Envelope) Event {
	w := d.Watership
	return Event{
		State: State{
			Version:     WireVersion,
			Fingerprint: w.Fingerprint,
			Message:     w.Message,
			Queue:       w.Queue,
			Attempt:     w.Attempt,
			FirstFailed: w.FirstFailed,
			Failure: Failure{
				Message: d.Error.Message, Type: d.Error.Type, Class: w.Class, Stack: d.Error.Stack,
			},
			Attempts: w.Attempts,
			EventID:  d.Event.ID,
			Time:     d.Timestamp,
			Delay:    time.Duration(w.Delay) * time.Millisecond,
			Duration: d.Event.Duration,
			Parent:   w.Parent,
			Replay:   w.Replay.Job,
			ReplayOf: w.Replay.Of,
		},
		Action:     d.Event.Action,
		TimeSource: w.TimeSource,
		Sequence:   d.Event.Sequence,
		Ingested:   d.Event.Ingested,
		Source:     w.Source,
		VHost:      w.VHost,
		Envelope:   e,
		BodySize:   d.Messaging.Message.Body.Size,
		BodyIn:     w.BodyIn,

		QuarantinedAction: w.Quarantined,
	}
}

type storedBody struct {
	Text      string `json:"text"`
	Unindexed string `json:"unindexed"`
	Raw       []byte `json:"raw"`
}

func (b storedBody) bytes() []byte {
	switch {
	case b.Raw != nil:
		return b.Raw
	case b.Text != "":
		return []byte(b.Text)
	case b.Unindexed != "":
		return []byte(b.Unindexed)
	}
	return nil
}

// storedMessage is the exact envelope but for its body.
type storedMessage struct {
	exactText
	Properties struct {
		exactText
		DeliveryMode uint8  `json:"delivery_mode"`
		Priority     uint8  `json:"priority"`
		Timestamp    *int64 `json:"timestamp"`
	} `json:"properties"`
	Headers []member `json:"headers"`
}

func (m storedMessage) envelope() (Envelope, error) {
	p := m.Properties
	properties := Properties{
		ContentType:     exact(p.ContentType, p.ContentType64),
		ContentEncoding: exact(p.ContentEncoding, p.ContentEncoding64),
		DeliveryMode:    p.DeliveryMode,
		Priority:        p.Priority,
		CorrelationID:   exact(p.CorrelationID, p.CorrelationID64),
		ReplyTo:         exact(p.ReplyTo, p.ReplyTo64),
		Expiration:      exact(p.Expiration, p.Expiration64),
		MessageID:       exact(p.MessageID, p.MessageID64),
		Type:            exact(p.Type, p.Type64),
		UserID:          exact(p.UserID, p.UserID64),
		AppID:           exact(p.AppID, p.AppID64),
	}
	if p.Timestamp != nil {
		properties.Timestamp = time.Unix(*p.Timestamp, 0)
	}
	e := Envelope{
		Exchange:   exact(m.Exchange, m.Exchange64),
		RoutingKey: exact(m.RoutingKey, m.RoutingKey64),
		Properties: properties,
	}
	if len(m.Headers) == 0 {
		return e, nil
	}
	var err error
	e.Headers, err = tableOf(m.Headers)
	return e, err
}

// exactText holds the members NAME and NAME64 that object.text writes.
type exactText struct {
	Exchange          string `json:"exchange"`
	Exchange64        []byte `json:"exchange64"`
	RoutingKey        string `json:"routing_key"`
	RoutingKey64      []byte `json:"routing_key64"`
	ContentType       string `json:"content_type"`
	ContentType64     []byte `json:"content_type64"`
	ContentEncoding   string `json:"content_encoding"`
	ContentEncoding64 []byte `json:"content_encoding64"`
	CorrelationID     string `json:"correlation_id"`
	CorrelationID64   []byte `json:"correlation_id64"`
	ReplyTo           string `json:"reply_to"`
	ReplyTo64         []byte `json:"reply_to64"`
	Expiration        string `json:"expiration"`
	Expiration64      []byte `json:"expiration64"`
	MessageID         string `json:"message_id"`
	MessageID64       []byte `json:"message_id64"`
	Type              string `json:"type"`
	Type64            []byte `json:"type64"`
	UserID            string `json:"user_id"`
	UserID64          []byte `json:"user_id64"`
	AppID             string `json:"app_id"`
	AppID64           []byte `json:"app_id64"`
}

func exact(text string, encoded []byte) string {
	if encoded != nil {
		return string(encoded)
	}
	return text
}
