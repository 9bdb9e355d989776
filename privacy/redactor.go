// Package privacy replaces personal data in events before they are stored, and keeps the original
// messages encrypted beside them.
//
// A value is replaced by a keyed hash, such as mail_3f9a2c71d0b4e8aa0c1d, so that equal values are still
// found, counted and grouped. A message that cannot be examined is replaced as a whole: a rule that
// cannot be applied hides, and never lets through. An indexer redacts with
//
//	redactor, err := privacy.New(privacy.Config{Rules: rules, HashKeys: hashKeys, Originals: originals})
//	if err != nil {
//		return err
//	}
//	return indexer.New(indexer.Config{Store: store, Format: schemas.DocumentFormat{Redact: redactor.Event}}).Run(ctx)
//
// and the Redactor is the Opener of a replayer and of subscriptions, which send originals.
package privacy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Config configures a Redactor.
type Config struct {
	Rules []Rule

	// HashKeys are the keys of hashes, the newest first, see ParseHashKeys. Rules need one.
	HashKeys [][]byte

	// KeepUnknown lets through what rules cannot examine: bodies that are no text, not JSON where a rule
	// names a member, longer than 4 MiB or with too many values, headers of bytes that are no UTF-8, and
	// messages in the log that are no events. false: they are replaced as a whole.
	KeepUnknown bool

	// Originals are the keys of the originals. nil: none is kept, and redacted messages can
	// neither be replayed nor edited.
	Originals Keys

	// Subjects keeps the keys of subjects, which rules that name subjects need, and Originals as well.
	Subjects SubjectKeys

	// Logger gets a warning for each message whose original is not kept, since Originals fails. nil: slog.Default.
	Logger *slog.Logger
}

// Redactor replaces values in events. The nil Redactor replaces nothing and opens nothing.
type Redactor struct {
	cfg      Config
	rules    []rule
	patterns []*rule       // of rules
	common   bool          // each rule is about every message
	subjects *subjectCache // nil: there are no keys of subjects
}

// New returns the Redactor of a configuration; nil if it has neither rules nor keys of originals. It fails
// if these do not seal.
func New(cfg Config) (*Redactor, error) {
	if len(cfg.Rules) > 0 && len(cfg.HashKeys) == 0 {
		return nil, errors.New("rules need a key for their hashes")
	}
	if len(cfg.Rules) == 0 && cfg.Originals == nil {
		return nil, nil
	}
	for i, key := range cfg.HashKeys {
		if len(key) != keySize {
			return nil, fmt.Errorf("hash key %d has %d bytes, expected %d", i+1, len(key), keySize)
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	r := &Redactor{cfg: cfg, common: true}
	for i, configured := range cfg.Rules {
		compiled, err := configured.compile()
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		r.rules = append(r.rules, compiled)
		r.common = r.common && configured.Exchange == "" && configured.Key == ""
	}
	r.patterns = patternsOf(r.rules)
	if r.NamesSubjects() && (cfg.Originals == nil || cfg.Subjects == nil) {
		return nil, errors.New("rules that name subjects need keys of originals, and a store of the keys of subjects")
	}
	if cfg.Originals != nil && cfg.Subjects != nil {
		r.subjects = &subjectCache{store: cfg.Subjects, originals: cfg.Originals, logger: cfg.Logger, now: time.Now, known: map[subjectHash]cachedKey{}}
	}
	if len(r.rules) > 0 && cfg.Originals != nil {
		if _, err := seal(cfg.Originals, schemas.Envelope{}, "", nil); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func patternsOf(rules []rule) (patterns []*rule) {
	for i := range rules {
		if rules[i].detectors != nil {
			patterns = append(patterns, &rules[i])
		}
	}
	return patterns
}

// Hashes returns the hashes that replace a value: by the patterns that find it, or
// else by the first parts of all other rules, each by every key.
func (r *Redactor) Hashes(value string) (hashes []string) {
	if r == nil || len(r.rules) == 0 {
		return nil
	}
	add := func(as, value string) {
		for _, key := range r.cfg.HashKeys {
			if hash := hashBy(key, as, value); !slices.Contains(hashes, hash) {
				hashes = append(hashes, hash)
			}
		}
	}
	for _, p := range r.patterns {
		for _, d := range p.detectors {
			if begin, end, found := d.find(value); begin == 0 && end == len(value) {
				add(p.As, found)
			}
		}
	}
	for i := range r.rules {
		if r.rules[i].detectors == nil {
			add(r.rules[i].As, value)
		}
	}
	return hashes
}

// Text returns a text that belongs to no message, such as a line of a log, without what patterns
// of any rule find.
func (r *Redactor) Text(text string) string {
	if r == nil {
		return text
	}
	if len(r.patterns) == 0 {
		return text
	}
	w := work{Redactor: r, key: r.cfg.HashKeys[0]}
	return w.replace(text, r.patterns)
}

// Event returns an event without the values of the rules, with its original sealed. It is for
// schemas.DocumentFormat. With rules that name subjects, pass events to the function that Prepare returns: here
// an event about a subject is redacted without an original.
func (r *Redactor) Event(e schemas.Event) schemas.Event { return r.event(e, nil) }

// event redacts by the keys of subjects.
func (r *Redactor) event(e schemas.Event, keys map[subjectHash]subjectKey) schemas.Event {
	if r == nil || len(r.rules) == 0 {
		return e
	}
	if applicable := r.applicable(&e); len(applicable) > 0 {
		return r.redacted(e, applicable, keys)
	}
	return e
}

func (r *Redactor) redacted(e schemas.Event, applicable []rule, keys map[subjectHash]subjectKey) schemas.Event {
	w := work{Redactor: r, event: &e, applicable: applicable, again: e.Redacted || e.Envelope.Redacted, values: map[string]string{}}
	before := e.Envelope
	about := r.about(&e, applicable, keys)
	w.key = about.hashKey
	w.redact()
	if w.messageChanged {
		e.Envelope.Redacted = true
		if !before.Redacted {
			e.Subjects = about.subjects
		}
		if r.cfg.Originals != nil && !before.Redacted && about.erasable {
			e.Sealed = r.seal(before, e.Fingerprint, about.keys)
		}
	}
	e.Redacted = e.Redacted || w.messageChanged || w.textsChanged
	return e
}

// seal returns the sealed original of a message; nil if there is no key, since its event is worth more.
func (r *Redactor) seal(e schemas.Envelope, fingerprint string, subjects []subjectKey) []byte {
	sealed, err := seal(r.cfg.Originals, e, fingerprint, subjects)
	if err != nil {
		r.cfg.Logger.Warn("a redacted message is recorded without its original, and cannot be replayed", "fingerprint", fingerprint, "error", err)
	}
	return sealed
}

func (r *Redactor) applicable(e *schemas.Event) []rule {
	if r.common {
		return r.rules
	}
	var some []rule
	for i := range r.rules {
		if r.rules[i].appliesTo(e) {
			some = append(some, r.rules[i])
		}
	}
	return some
}

// Opens reports whether there are keys of originals.
func (r *Redactor) Opens() bool { return r != nil && r.cfg.Originals != nil }

// Open replaces the message of an event by its original, if it is redacted. An error is a
// *RedactedError, and the event is as it was.
func (r *Redactor) Open(ctx context.Context, e *schemas.Event) error {
	if !e.Envelope.Redacted {
		return nil
	}
	original, err := r.OpenSealed(ctx, e.Sealed, e.Fingerprint)
	if err != nil {
		return &RedactedError{EventID: e.EventID, Err: err}
	}
	if e.BodyIn != schemas.BodyHere {
		original.Body = nil
	}
	e.Envelope, e.Sealed, e.Redacted = original, nil, false
	return nil
}

// OpenSealed returns the original of a message with a fingerprint.
func (r *Redactor) OpenSealed(ctx context.Context, sealed []byte, fingerprint string) (schemas.Envelope, error) {
	switch {
	case len(sealed) == 0:
		return schemas.Envelope{}, errors.New("no original was kept")
	case !r.Opens():
		return schemas.Envelope{}, errors.New("this process has no keys of originals: set redact.original_keys_file")
	}
	return r.openOf(ctx, sealed, fingerprint)
}
