package schemas

import (
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// ParseDocument converts the source of a document back to its event. It refuses
// JSON that is no document of Watership, and documents with a newer version.
func ParseDocument(source []byte) (event Event, err error) {
	r := jsonscan.New(source)
	event.ReadDocument(r)
	if err := r.End(); err != nil {
		return Event{}, fmt.Errorf("reading document %q: %w", event.EventID, err)
	}
	return event, nil
}

// ReadDocument replaces an event by the event of a document inside a larger JSON value, as
// ParseDocument does.
func (e *Event) ReadDocument(r *jsonscan.Reader) {
	*e = Event{State: State{Version: header.Version}}
	version := 0
	outcome := ""
	var exact exactParts
	r.Object(func(name []byte) {
		switch string(name) {
		case "@timestamp":
			e.Time = r.Time()
		case "event":
			outcome = readEventFields(r, e)
		case "user":
			e.Audit.User = readText(r, "name")
		case "client":
			e.Audit.Address = readText(r, "address")
		case "messaging":
			exact.readMessaging(r, e)
		case "error":
			readError(r, &e.Failure)
		case "watership":
			version = readWatership(r, e)
		case "amqp":
			exact.readAMQP(r)
		case "headers":
			exact.readHeaders(r)
		case "body":
			exact.body, e.Sealed = readBody(r)
		}
	})
	redacted := e.Envelope.Redacted
	e.Envelope = exact.envelope()
	e.Envelope.Redacted = redacted
	e.Audit.Refused = e.Action == Audited && outcome == Poisoned.Outcome()
	if stored := e.Failure.Group; stored != "" {
		if e.Failure.Group = ""; e.ErrorGroup() != stored {
			e.Failure.Group = stored // another version made it, or the handler named it
		}
	}
	if e.QuarantinedAction != "" { // event.action is for searches
		e.Action = Quarantined
	}
	if err := checkVersion(version); err != nil {
		r.Fail(err)
	}
}

func checkVersion(version int) error {
	switch {
	case version == 0:
		return errors.New("it has no watership.version: it was not written by Watership")
	case version > redactedVersion:
		return fmt.Errorf("it has version %d, this Watership knows up to %d: upgrade it", version, redactedVersion)
	}
	return nil
}

func readEventFields(r *jsonscan.Reader, e *Event) (outcome string) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "id":
			e.EventID = r.Text()
		case "action":
			e.Action = Action(r.Text())
		case "duration":
			e.Duration = time.Duration(r.Int(64))
		case "outcome":
			outcome = r.Text()
		case "reason":
			e.Audit.Reason = r.Text()
		case "sequence":
			e.Sequence = r.Int(64)
		case "ingested":
			e.Ingested = r.Time()
		}
	})
	return outcome
}

func readError(r *jsonscan.Reader, f *Failure) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "type":
			f.Type = r.Text()
		case "message":
			f.Message = r.Text()
		case "stack_trace":
			f.Stack = r.Text()
		case "class":
			f.Class = r.Text()
		case "rule":
			f.Rule = r.Text()
		}
	})
}

func readWatership(r *jsonscan.Reader, e *Event) (version int) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "version":
			version = int(r.Int(64))
		case "source":
			e.Source = r.Text()
		case "vhost":
			e.VHost = r.Text()
		case "order":
			e.ByPriority = r.Text() == orderByPriority
		case "time_source":
			if e.TimeSource = TimeSource(r.Text()); e.TimeSource == "taken" { // the former name
				e.TimeSource = "ingest"
			}
		case "body_in":
			e.BodyIn = BodyPlace(r.Text())
		case "redacted":
			e.readRedacted(r.Text())
		case "subject":
			r.Array(func() { e.Subjects = append(e.Subjects, r.Text()) })
		case "quarantined_action":
			e.QuarantinedAction = Action(r.Text())
		case "queue_time":
			e.QueueTime = time.Duration(r.Int(64))
		case "total_time":
			e.TotalTime = time.Duration(r.Int(64))
		case "quarantined_error":
			readError(r, &e.QuarantinedFailure)
		default:
			readStateField(r, string(name), &e.State)
		}
	})
	return version
}

func readStateField(r *jsonscan.Reader, name string, s *State) {
	switch name {
	case "fingerprint":
		s.Fingerprint = r.Text()
	case "message":
		s.Message = r.Text()
	case "parent":
		s.Parent = r.Text()
	case "queue":
		s.Queue = r.Text()
	case "receiver":
		s.Receiver = r.Text()
	case "answer":
		s.Answer = r.Text()
	case "trace":
		s.Trace = r.Text()
	case "attempt":
		s.Attempt = int(r.Int(64))
	case "delay":
		s.Delay = time.Duration(r.Int(64)) * time.Millisecond
	case "waits":
		s.Waits = int(r.Int(64))
	case "waits_since":
		s.WaitsSince = r.Time()
	case "class":
		s.Failure.Class = r.Text()
	case "rule":
		s.Failure.Rule = r.Text()
	case "error_group":
		s.Failure.Group = r.Text()
	case "first_failed":
		s.FirstFailed = r.Time()
	case "attempts":
		r.Array(func() { s.Attempts = append(s.Attempts, readAttempt(r)) })
	case "origin":
		s.OriginClaimed = r.Text() == originClaimed
	case "replay":
		readReplay(r, s)
	case "stream":
		readStreamFields(r, &s.Stream)
	case "audit":
		readAuditFields(r, s)
	case "triage":
		readTriageFields(r, s)
	}
}

func readAttempt(r *jsonscan.Reader) (a FailedAttempt) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "time":
			a.Time = r.Time()
		case "class":
			a.Class = r.Text()
		}
	})
	return a
}

func readReplay(r *jsonscan.Reader, s *State) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "job":
			s.Replay = r.Text()
		case "of":
			s.ReplayOf = r.Text()
		}
	})
}

// readBody returns the exact body: raw, if the text was decoded from it; and the sealed original.
func readBody(r *jsonscan.Reader) (body, sealed []byte) {
	isRaw := false
	r.Object(func(name []byte) {
		switch string(name) {
		case "raw":
			body, isRaw = r.Bytes(), true
		case "text", "unindexed":
			if !isRaw {
				body = r.TextBytes()
			}
		case "sealed":
			sealed = r.Bytes()
		}
	})
	return body, sealed
}
