// Package subjects finds the record of a person whom messages are about, and erases it: the key by which the
// originals of those messages open is destroyed.
package subjects

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/privacy"
)

// The operations on subjects.
var (
	FindSubject = operation.Declare[FindInput, FindOutput](operation.Operation{
		Method: http.MethodPost, Path: "/subjects/find", ID: "findSubject", Tag: "subjects", Role: access.Operator, Timeout: 5 * time.Minute,
		Summary: "Count what is recorded about a person whom messages are about",
		Text:    "Rules of redaction name the subjects of messages. Nothing is changed; the audited event has the hash of the subject.",
	})
	EraseSubject = operation.Declare[EraseInput, EraseOutput](operation.Operation{
		Method: http.MethodPost, Path: "/subjects/erase", ID: "eraseSubject", Tag: "subjects", Role: access.Admin, Timeout: 5 * time.Minute, Unsigned: true,
		Summary: "Destroy the key of a subject, so that nobody can open the originals of its messages",
		Text: "It cannot be undone. The events stay, with hashes that nobody can compute again. Other processes may use the key for up to a minute. " +
			"An audited event before it, and one after it, have the hash of the subject. A repeated request finishes one that was cut off, and finds nothing that is left.",
	})
)

// Subject names a person whom messages are about.
type Subject struct {
	Subject string   `json:"subject,omitempty" maxLength:"10000" doc:"The value by which rules of redaction name it, or its hash"`
	Hashes  []string `json:"hashes,omitempty" maxItems:"100" doc:"Its hashes, in the place of the value"`
}

// FindInput is the input of FindSubject.
type FindInput struct{ Body Subject }

// FindOutput has the record of a subject.
type FindOutput struct{ Body SubjectRecord }

// EraseInput is the input of EraseSubject.
type EraseInput struct {
	operation.IdempotencyKey
	Body Erasure
}

// Erasure names the subject to erase.
type Erasure struct {
	Subject
	operation.Bounds
}

// EraseOutput has the result.
type EraseOutput struct{ Body Erased }

// Erased is the result of an Erasure.
type Erased struct {
	operation.Outcome
	SubjectRecord
	CachedFor int `json:"cached_for" doc:"Seconds for which other processes may still use the key"`
}

// SubjectRecord counts the keys, events and messages of a subject.
type SubjectRecord struct {
	Hashes     []string                `json:"hashes" nullable:"false" doc:"Hashes of the subject, by each key of hashes"`
	Keys       int                     `json:"keys" doc:"Keys by which its originals open; 0: there are none, or it was erased"`
	Events     int                     `json:"events" doc:"Events that name it"`
	Others     int                     `json:"others" doc:"Events of the same messages that do not name it, as those without a body"`
	Messages   int                     `json:"messages" doc:"Messages of these events"`
	First      *time.Time              `json:"first,omitempty" doc:"When the first of them was recorded"`
	Last       *time.Time              `json:"last,omitempty" doc:"When the last of them was recorded"`
	Unstorable int                     `json:"unstorable" doc:"Events whose originals are in the queue of messages too large for the store: they end with the key, too"`
	Waiting    map[string]int          `json:"waiting" doc:"Its messages that wait in RabbitMQ for their next attempt, in plain, by queue"`
	Parked     []failures.ParkedCopies `json:"parked" nullable:"false" doc:"Parking queues in which its messages may be, in plain"`
	Unasked    bool                    `json:"unasked,omitempty" doc:"RabbitMQ could not be asked for parked messages"`
}

type operations struct{ system *system.System }

// Implement adds the operations on subjects to a set.
func Implement(set *operation.Set, sys *system.System) {
	o := operations{sys}
	operation.Implement(set, FindSubject, o.find)
	operation.Implement(set, EraseSubject, o.erase)
}

// Hashed returns the hashes of a subject in the place of its value, as it may be recorded.
func Hashed(redactor *privacy.Redactor, s Subject) (Subject, error) {
	hashes := slices.Clone(s.Hashes)
	switch value := strings.TrimSpace(s.Subject); {
	case !redactor.NamesSubjects():
		return Subject{}, problem.BadRequest("no rule of redact.rules names the subjects of messages", "Set subject: true in one; see docs/privacy.md.")
	case s.Subject != "" && privacy.IsSubject(value):
		hashes = append(hashes, value)
	case s.Subject != "":
		hashes = append(hashes, redactor.Subjects(s.Subject)...)
	}
	if len(hashes) == 0 {
		return Subject{}, problem.Invalid("body.subject", "expected a subject, or its hashes")
	}
	for _, hash := range hashes {
		if !privacy.IsSubject(hash) {
			return Subject{}, problem.Invalid("body.hashes", "expected hashes of subjects, such as of the former answer")
		}
	}
	return Subject{Hashes: hashes}, nil
}

// checkCaller refuses callers who see some queues: messages about a person are in all of them.
func checkCaller(ctx context.Context) error {
	if access.FromContext(ctx).Limited() {
		return problem.Forbidden("you are limited to some queues and exchanges, and messages about a person may be in all of them", "Ask somebody without limits.")
	}
	return nil
}

func (o operations) find(ctx context.Context, in *FindInput) (*FindOutput, error) {
	named, err := Hashed(o.system.Redactor(), in.Body)
	if err != nil {
		return nil, err
	}
	access.Describe(ctx, access.Action{Name: "find subject", Object: strings.Join(named.Hashes, ", "), DryRun: true})
	if err := checkCaller(ctx); err != nil {
		return nil, err
	}
	found, _, err := o.report(ctx, named.Hashes)
	return &FindOutput{found}, err
}

func (o operations) erase(ctx context.Context, in *EraseInput) (*EraseOutput, error) {
	e := in.Body
	named, err := Hashed(o.system.Redactor(), e.Subject)
	if err != nil {
		return nil, err
	}
	e.Describe(ctx, "erase subject", strings.Join(named.Hashes, ", "))
	if err := checkCaller(ctx); err != nil {
		return nil, err
	}
	if err := e.NeedReason(); err != nil {
		return nil, err
	}
	out := &EraseOutput{Erased{Outcome: operation.NewOutcome(), CachedFor: int(privacy.SubjectKeyAge.Seconds())}}
	out.Body.SubjectRecord, out.Body.Queues, err = o.report(ctx, named.Hashes)
	if err != nil {
		return nil, err
	}
	out.Body.Matched = out.Body.Keys
	if err := e.Check(out.Body.Matched, "key"); err != nil || e.DryRun {
		return out, err
	}
	store, err := o.system.Store(ctx)
	if err != nil {
		return nil, err
	}
	if err := access.RecordBegin(ctx); err != nil {
		return nil, err
	}
	destroyed, err := store.DestroySubjectKeys(ctx, named.Hashes) // also without keys: a former attempt may have left something of them
	o.system.Redactor().Forget(named.Hashes...)
	out.Body.Done = len(destroyed)
	if err != nil {
		err = fmt.Errorf("the erasure may be unfinished, so erase the subject again, also when no key is left: %w", err)
	}
	return out, out.Body.Unfinished(err, "key")
}
