package messages

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// Originals opens the messages of events for a caller who may read originals.
type Originals struct{ redactor *privacy.Redactor }

// ReadOriginals returns what opens the messages of a query, of which the audit event is stored.
func ReadOriginals(ctx context.Context, sys *system.System, query string) (Originals, error) {
	if err := access.MayReadOriginals(ctx, query); err != nil {
		return Originals{}, err
	}
	if !sys.Redactor().Opens() {
		return Originals{}, unopened("originals", errors.New("this process has no keys"))
	}
	if err := checkSubjectKeys(ctx, sys); err != nil {
		return Originals{}, err
	}
	return Originals{sys.Redactor()}, access.RecordOriginals(ctx, query)
}

// checkSubjectKeys fails while the store does not give the keys of subjects, so that nothing is written until some
// message needs one.
func checkSubjectKeys(ctx context.Context, sys *system.System) error {
	store, err := sys.Store(ctx)
	if err != nil {
		return err
	}
	if _, err := store.SubjectKeys(ctx, sys.Redactor().Subjects("nobody")); err != nil {
		return fmt.Errorf("originals cannot be opened: %w", err)
	}
	return nil
}

// Of returns an event with its message as it was published. A message whose original cannot be opened stays
// redacted. An error is one of the store, which did not say whether there are its keys.
func (o Originals) Of(ctx context.Context, e schemas.Event) (schemas.Event, error) {
	opened, err := original(ctx, o.redactor, e)
	if unread := unreadKeys(e, err); unread != nil {
		return e, unread
	}
	if err != nil {
		return e, nil
	}
	return opened, nil
}

// original returns an event with its message as it was published. Its other texts, such as the error,
// have no original.
func original(ctx context.Context, redactor *privacy.Redactor, e schemas.Event) (schemas.Event, error) {
	if !e.Envelope.Redacted {
		return e, nil
	}
	err := redactor.Open(ctx, &e)
	e.Redacted = true
	return e, err
}

// original is stored with the message as it was published, of which the audit event is stored before.
func (m wholeMessages) original(ctx context.Context, id string) (schemas.Event, error) {
	if err := access.MayReadOriginals(ctx, id); err != nil {
		return schemas.Event{}, err
	}
	stored, err := m.stored(ctx, id)
	if err != nil {
		return schemas.Event{}, err
	}
	opened, err := original(ctx, m.system.Redactor(), stored)
	if unread := unreadKeys(stored, err); unread != nil {
		return schemas.Event{}, unread
	}
	if _, erased := errors.AsType[*privacy.ErasedError](err); erased {
		return schemas.Event{}, err
	}
	if err != nil {
		return schemas.Event{}, unopened("the original of message "+nameOf(stored), errors.Unwrap(err))
	}
	return opened, access.RecordOriginals(ctx, nameOf(stored))
}

// unreadKeys returns the error of a store that did not say whether it has the keys of an original; nil: it did.
func unreadKeys(e schemas.Event, err error) error {
	if _, unread := errors.AsType[*eventstore.Error](err); !unread {
		return nil
	}
	return fmt.Errorf("the original of message %s cannot be opened: %w", nameOf(e), errors.Unwrap(err)) // it is redacted, which is no fault
}

// nameOf returns an id of an event's message that reveals nothing of it.
func nameOf(e schemas.Event) string {
	if e.Fingerprint != "" {
		return e.Fingerprint
	}
	return e.EventID
}

func unopened(what string, why error) error {
	return &problem.Problem{
		Code: code.Conflict, Detail: fmt.Sprintf("%s cannot be opened: %v", what, why),
		Remedy: "Ask a process that has the keys (redact.original_keys_file).",
	}
}
