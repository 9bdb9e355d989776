package privacy

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// SubjectKeys keeps the keys of subjects: of each person whom messages are about, as rules with Subject name
// them, a random key. Their originals open, and values in their messages have their hashes, by this key and
// the keys of the configuration. So its destruction erases them, in copies of the events as well.
//
// A key is sealed by Config.Originals, and kept under the hash of its subject. A process keeps keys that it has
// asked for in memory for up to SubjectKeyAge.
type SubjectKeys interface {
	// SubjectKeys returns the keys of those subjects that have one, in one request. They are at most 5,000.
	SubjectKeys(ctx context.Context, subjects []string) (map[string][]byte, error)

	// KeepSubjectKeys keeps keys of subjects that have none yet, and returns the key that each has then, in one
	// request or two. They are durable when it returns.
	KeepSubjectKeys(ctx context.Context, keys map[string][]byte) (map[string][]byte, error)
}

// SubjectKeyAge is the time for which a process may use the key of a subject after another one has destroyed it.
const SubjectKeyAge = time.Minute

const (
	maxSubjects    = 16     // of a message; the original of one with more is not kept
	cachedSubjects = 50_000 // whose keys are in memory
	subjectsAtOnce = 5000   // of a request

	subjectLabel   = "subject" // of the hashes of subjects
	subjectSealUse = "watership key of a subject"
	subjectHashUse = "watership hashes of a subject"
	subjectKeyUse  = "watership id of the key of a subject"
)

// subjectHash is the hash of a subject, as its value has it where it is replaced.
type subjectHash [hashSize]byte

func (h subjectHash) String() string { return subjectLabel + "_" + hex.EncodeToString(h[:]) }

func parseSubject(text string) (hash subjectHash, ok bool) {
	digits, ok := strings.CutPrefix(text, subjectLabel+"_")
	if !ok || len(digits) != 2*hashSize {
		return hash, false
	}
	_, err := hex.Decode(hash[:], []byte(digits))
	return hash, err == nil
}

// keyID identifies the key of a subject, since one that was erased may get another.
type keyID [8]byte

// subjectKey is the key of a subject.
type subjectKey struct {
	hash subjectHash
	id   keyID
	key  []byte
}

func newSubjectKey(hash subjectHash, key []byte) (subjectKey, error) {
	s := subjectKey{hash: hash, key: key}
	if len(key) != keySize {
		return s, fmt.Errorf("the key of %s has %d bytes, expected %d", hash, len(key), keySize)
	}
	id, err := hkdf.Expand(sha256.New, key, subjectKeyUse, len(s.id))
	copy(s.id[:], id)
	return s, err
}

// secretOf returns the keys of subjects as one; nil without subjects.
func secretOf(subjects []subjectKey) (secret []byte) {
	for _, s := range subjects {
		secret = append(secret, s.key...)
	}
	return secret
}

// ErasedError reports that the key of a subject was destroyed, so that the originals of its messages cannot be
// opened any more.
type ErasedError struct {
	Subject string // its hash
}

func (e *ErasedError) Error() string {
	return "it was erased: the key of " + e.Subject + " is destroyed"
}

// Subjects returns the hashes of a subject under which its key and its events may be, by each key of hashes, the
// newest first. nil: no rule names subjects.
func (r *Redactor) Subjects(value string) (hashes []string) {
	if !r.NamesSubjects() {
		return nil
	}
	for _, key := range r.cfg.HashKeys {
		hashes = append(hashes, hashBy(key, subjectLabel, value))
	}
	return hashes
}

// IsSubject reports whether a text is the hash of a subject.
func IsSubject(text string) bool {
	_, ok := parseSubject(text)
	return ok
}

// NamesSubjects reports whether a rule names subjects.
func (r *Redactor) NamesSubjects() bool {
	return r != nil && slices.ContainsFunc(r.rules, func(rule rule) bool { return rule.Subject })
}

// subjectsOf returns the subjects of an event that was not redacted, in their order.
func (r *Redactor) subjectsOf(e *schemas.Event, applicable []rule) (hashes []subjectHash, known bool) {
	seen := map[subjectHash]bool{}
	add := func(value string) string {
		if value != "" && len(seen) < mostElsewhere { // far more than maxSubjects, so that no original is sealed for some of them
			seen[digest(r.cfg.HashKeys[0], value)] = true
		}
		return ""
	}
	known = true
	if e.Action.OfNoMessage() {
		return nil, true
	}
	var members []*rule
	for i := range applicable {
		switch by := &applicable[i]; {
		case !by.Subject:
		case by.path != nil:
			members = append(members, by)
		case by.Text != "":
			add(*texts(e, by.Text)[0])
		default:
			for name, value := range e.Envelope.Headers {
				if strings.EqualFold(name, by.Header) {
					leaves(value, add)
				}
			}
		}
	}
	if len(members) > 0 {
		known = r.subjectsOfBody(e, members, add)
	}
	hashes = sorted(slices.Collect(maps.Keys(seen)))
	return hashes, known || len(hashes) > 0
}

// subjectsOfBody adds the values of members. It reports whether the body can be examined.
func (r *Redactor) subjectsOfBody(e *schemas.Event, members []*rule, add func(string) string) bool {
	if e.BodyIn != schemas.BodyHere {
		return false
	}
	if isNoEvent(e) {
		return r.cfg.KeepUnknown
	}
	if len(e.Envelope.Body) == 0 {
		return true
	}
	text, ok := examined(&e.Envelope)
	if !ok || !json.Valid(text) {
		return r.cfg.KeepUnknown
	}
	j := jsonText{text: string(text), found: func(_ *rule, value string) string { return add(value) }}
	j.value(members, 0)
	return true
}

// subjectKeys are the keys that some subjects have.
type subjectKeys struct {
	open   map[subjectHash]subjectKey
	broken map[subjectHash]error // why they do not open
}

func (k subjectKeys) has(hash subjectHash) bool {
	_, opens := k.open[hash]
	return opens || k.broken[hash] != nil
}

// subjectCache has keys of subjects that the store was asked for a short time ago.
type subjectCache struct {
	store     SubjectKeys
	originals Keys
	logger    *slog.Logger
	now       func() time.Time

	mu         sync.Mutex // guards the rest
	known      map[subjectHash]cachedKey
	swept      time.Time // when keys that are too old were removed
	generation int       // counts the calls of forget
}

type cachedKey struct {
	subjectKey
	err   error // why it does not open
	asked time.Time
}

// asking is a request to the store for keys.
type asking struct {
	since      time.Time
	generation int
}

func (c *subjectCache) ask() asking {
	c.mu.Lock()
	defer c.mu.Unlock()
	return asking{c.now(), c.generation}
}

// addTo adds the key to the keys of a request.
func (c cachedKey) addTo(keys subjectKeys) {
	if c.err != nil {
		keys.broken[c.hash] = c.err
	} else {
		keys.open[c.hash] = c.subjectKey
	}
}

// cached returns the keys of subjects that are in memory, and the others.
func (c *subjectCache) cached(subjects []subjectHash) (keys subjectKeys, missing []string) {
	keys = subjectKeys{open: make(map[subjectHash]subjectKey, len(subjects)), broken: map[subjectHash]error{}}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, hash := range subjects {
		if keys.has(hash) {
			continue
		}
		if found, ok := c.known[hash]; ok && now.Sub(found.asked) < SubjectKeyAge {
			found.addTo(keys)
		} else {
			missing = append(missing, hash.String())
		}
	}
	return keys, missing
}

// read returns the keys of subjects that have one.
func (c *subjectCache) read(ctx context.Context, subjects []subjectHash) (subjectKeys, error) {
	keys, missing := c.cached(subjects)
	if len(missing) == 0 {
		return keys, nil
	}
	asked := c.ask()
	found, err := c.store.SubjectKeys(ctx, missing)
	if err != nil {
		return keys, err
	}
	c.add(keys, found, asked)
	return keys, nil
}

// ensure returns the keys of all subjects, and makes those that there are not yet. One that does not open stays as
// it is, since originals are sealed by it. Where none can be sealed, it makes none.
func (c *subjectCache) ensure(ctx context.Context, subjects []subjectHash) (subjectKeys, error) {
	keys, err := c.read(ctx, subjects)
	if err != nil {
		return keys, err
	}
	made := map[string][]byte{}
	var failed error
	for _, hash := range subjects {
		if keys.has(hash) {
			continue
		}
		key := make([]byte, keySize)
		_, _ = rand.Read(key) // never fails
		text := hash.String()
		sealed, err := sealText(c.originals, nil, nil, subjectSealUse, key, text)
		if err != nil {
			failed = fmt.Errorf("sealing the key of %s: %w", text, err)
			keys.broken[hash] = failed
			continue
		}
		made[text] = sealed
	}
	if failed != nil { // as where an original cannot be sealed: events are worth more
		c.logger.Warn("the keys of subjects cannot be sealed, so that messages about them are recorded without their originals", "error", failed)
	}
	if len(made) == 0 {
		return keys, nil
	}
	asked := c.ask()
	kept, err := c.store.KeepSubjectKeys(ctx, made)
	if err != nil {
		return keys, fmt.Errorf("keeping the keys of subjects: %w", err)
	}
	c.add(keys, kept, asked)
	for _, hash := range subjects {
		if !keys.has(hash) { // another process may have erased it just now
			return keys, &eventstore.Error{Kind: eventstore.Unavailable, Reason: "keeping the keys of subjects: the store has not kept the key of " + hash.String()}
		}
	}
	return keys, nil
}

// add opens keys as the store has them. One that does not open is a matter of its subject alone: its events are
// worth more than their originals, and other events have nothing to do with it.
func (c *subjectCache) add(keys subjectKeys, found map[string][]byte, asked asking) {
	added := make([]cachedKey, 0, len(found))
	for text, sealed := range found {
		hash, ok := parseSubject(text)
		if !ok {
			continue
		}
		key, err := c.open(hash, sealed)
		if err != nil {
			c.logger.Warn("the key of a subject cannot be opened, so that its messages are recorded without their originals: "+
				"restore the line of original_keys_file that sealed it, or erase the subject", "subject", text, "error", err)
			key.hash, err = hash, fmt.Errorf("the key of %s cannot be opened: %w", text, err)
		}
		cached := cachedKey{key, err, asked.since}
		cached.addTo(keys)
		added = append(added, cached)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	if c.generation != asked.generation {
		return // one of them may be destroyed since the store has answered
	}
	if len(c.known)+len(added) > cachedSubjects {
		clear(c.known)
	}
	for _, key := range added {
		c.known[key.hash] = key
	}
}

// sweep removes keys that are too old to be used, so that the memory of a process does not have them. It looks
// through all of them, and so at most once in their age.
func (c *subjectCache) sweep() {
	now := c.now()
	if now.Sub(c.swept) < SubjectKeyAge {
		return
	}
	c.swept = now
	maps.DeleteFunc(c.known, func(_ subjectHash, key cachedKey) bool { return now.Sub(key.asked) >= SubjectKeyAge })
}

// open opens the key of a subject.
func (c *subjectCache) open(hash subjectHash, sealed []byte) (subjectKey, error) {
	s, err := parseSealed(sealed)
	if err != nil {
		return subjectKey{}, err
	}
	key, err := s.open(c.originals, nil, subjectSealUse, hash.String())
	if err != nil {
		return subjectKey{}, err
	}
	return newSubjectKey(hash, key)
}

func (c *subjectCache) forget(subjects ...subjectHash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	for _, hash := range subjects {
		delete(c.known, hash)
	}
}

// Forget lets this process use the keys of subjects no more, which were destroyed. Others do so after
// SubjectKeyAge.
func (r *Redactor) Forget(subjects ...string) {
	if r == nil || r.subjects == nil {
		return
	}
	for _, text := range subjects {
		if hash, ok := parseSubject(text); ok {
			r.subjects.forget(hash)
		}
	}
}

// Prepare returns Event for some events with the keys of their subjects, which it reads or makes in one request for
// thousands of them. It makes no keys for events that were redacted before. Its errors are those of SubjectKeys, and
// then nothing is redacted. It is for schemas.DocumentFormat.
func (r *Redactor) Prepare(ctx context.Context, events []schemas.Event) (func(schemas.Event) schemas.Event, error) {
	if !r.NamesSubjects() {
		return r.Event, nil
	}
	var plain, redacted []subjectHash // of events
	for i := range events {
		hashes, _ := r.of(&events[i], r.applicable(&events[i]))
		switch {
		case len(hashes) > maxSubjects: // it uses no key
		case events[i].Envelope.Redacted:
			redacted = append(redacted, hashes...)
		default:
			plain = append(plain, hashes...)
		}
	}
	keys, err := inRequests(ctx, plain, r.subjects.ensure)
	if err != nil {
		return nil, err
	}
	// A redacted event has its original already, and its subject may be erased, so that no key is made.
	former, err := inRequests(ctx, redacted, r.subjects.read)
	if err != nil {
		return nil, err
	}
	maps.Copy(keys, former)
	return func(e schemas.Event) schemas.Event { return r.event(e, keys) }, nil
}

// inRequests gets the keys of subjects some at a time, so that no batch makes a request that the store refuses.
func inRequests(ctx context.Context, subjects []subjectHash, get func(context.Context, []subjectHash) (subjectKeys, error)) (map[subjectHash]subjectKey, error) {
	subjects = sorted(subjects)
	all := make(map[subjectHash]subjectKey, len(subjects))
	for some := range slices.Chunk(subjects, subjectsAtOnce) {
		keys, err := get(ctx, some)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, keys.open)
	}
	return all, nil
}

// sorted returns each subject once.
func sorted(subjects []subjectHash) []subjectHash {
	slices.SortFunc(subjects, func(a, b subjectHash) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(subjects)
}

// of returns the subjects of an event, which may have been redacted.
func (r *Redactor) of(e *schemas.Event, applicable []rule) (hashes []subjectHash, known bool) {
	if !e.Envelope.Redacted {
		return r.subjectsOf(e, applicable)
	}
	for _, text := range e.Subjects {
		if hash, ok := parseSubject(text); ok {
			hashes = append(hashes, hash)
		}
	}
	return hashes, true
}

// about is what an event is about, and the keys for it.
type about struct {
	subjects []string     // their hashes
	keys     []subjectKey // of all; empty: there are no subjects
	hashKey  []byte       // of the values
	erasable bool         // an original can be kept: if there are subjects, it ends with their keys
}

// about returns the keys for an event. The values of an event whose subjects are not known have hashes by a random key, which nobody
// can compute again.
func (r *Redactor) about(e *schemas.Event, applicable []rule, keys map[subjectHash]subjectKey) (a about) {
	hashes, known := r.of(e, applicable)
	for _, hash := range hashes {
		a.subjects = append(a.subjects, hash.String())
		if key, found := keys[hash]; found {
			a.keys = append(a.keys, key)
		}
	}
	if known && len(hashes) == 0 {
		a.hashKey, a.erasable = r.cfg.HashKeys[0], true
		return a
	}
	a.hashKey = make([]byte, keySize)
	a.erasable = len(hashes) > 0 && len(hashes) <= maxSubjects && len(a.keys) == len(hashes)
	if !a.erasable {
		_, _ = rand.Read(a.hashKey) // never fails
		return a
	}
	salted := hmac.New(sha256.New, r.cfg.HashKeys[0])
	_, _ = salted.Write([]byte(subjectHashUse))
	_, _ = salted.Write(secretOf(a.keys))
	salted.Sum(a.hashKey[:0])
	return a
}

// openOf opens an original by the keys of its subjects.
func (r *Redactor) openOf(ctx context.Context, sealed []byte, fingerprint string) (schemas.Envelope, error) {
	s, err := parseSealed(sealed)
	if err != nil {
		return schemas.Envelope{}, err
	}
	if len(s.subjects) == 0 {
		return s.envelope(r.cfg.Originals, nil, fingerprint)
	}
	if r.subjects == nil {
		return schemas.Envelope{}, errors.New("this process has no keys of subjects")
	}
	var hashes []subjectHash
	for _, of := range s.subjects {
		hashes = append(hashes, of.hash)
	}
	keys, err := r.subjects.read(ctx, hashes)
	if err != nil {
		return schemas.Envelope{}, err
	}
	isOther := func(of sealedSubject) bool { key, found := keys.open[of.hash]; return found && key.id != of.key }
	if slices.ContainsFunc(s.subjects, isOther) { // another process may have made a new key
		r.subjects.forget(hashes...)
		if keys, err = r.subjects.read(ctx, hashes); err != nil {
			return schemas.Envelope{}, err
		}
	}
	var of []subjectKey
	for _, subject := range s.subjects {
		if err := keys.broken[subject.hash]; err != nil {
			return schemas.Envelope{}, err
		}
		key, found := keys.open[subject.hash]
		if !found || key.id != subject.key {
			return schemas.Envelope{}, &ErasedError{Subject: subject.hash.String()}
		}
		of = append(of, key)
	}
	return s.envelope(r.cfg.Originals, of, fingerprint)
}
