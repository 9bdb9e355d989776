package privacy

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// keyStore has keys in memory.
type keyStore struct {
	mu       sync.Mutex
	keys     map[string][]byte
	requests int
	largest  int // subjects of one request
	err      error
}

func (s *keyStore) SubjectKeys(_ context.Context, subjects []string) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.largest = s.requests+1, max(s.largest, len(subjects))
	found := map[string][]byte{}
	for _, subject := range subjects {
		if key, ok := s.keys[subject]; ok {
			found[subject] = key
		}
	}
	return found, s.err
}

func (s *keyStore) KeepSubjectKeys(_ context.Context, keys map[string][]byte) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.largest = s.requests+1, max(s.largest, len(keys))
	kept := map[string][]byte{}
	for subject, key := range keys {
		if _, found := s.keys[subject]; !found && s.err == nil {
			s.keys[subject] = key
		}
		kept[subject] = s.keys[subject]
	}
	return kept, s.err
}

func (s *keyStore) destroy(subjects ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, subject := range subjects {
		delete(s.keys, subject)
	}
}

// all returns everything that is kept.
func (s *keyStore) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.keys)
}

func newKeyStore() *keyStore { return &keyStore{keys: map[string][]byte{}} }

func originals(t testing.TB) Keys {
	t.Helper()
	keys, err := ParseKeys([]byte("a " + strings.Repeat("0a", keySize)))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func bySubject(t testing.TB, store SubjectKeys, rules ...Rule) *Redactor {
	t.Helper()
	return redactor(t, Config{Rules: append(rules, Rule{Pattern: "mail"}), Originals: originals(t), Subjects: store})
}

// recorded returns events as they are recorded and read again.
func recorded(t *testing.T, r *Redactor, events ...schemas.Event) (stored []schemas.Event) {
	t.Helper()
	format, err := schemas.DocumentFormat{Redact: r.Event, Prepare: r.Prepare}.For(t.Context(), events)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		again, err := schemas.ParseDocument(format.Document(e).Source)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, again)
	}
	return stored
}

func orderOf(customer string) schemas.Event {
	return order(fmt.Sprintf(`{"customer":{"id":%q},"mail":"%s@example.com","note":"the secret of %s, ann@example.com"}`, customer, customer, customer))
}

var byMember = Rule{JSON: "customer.id", As: "customer", Subject: true}

// The original of an erased subject does not open with all other keys, and those of others do.
func TestErasedSubject(t *testing.T) {
	store := newKeyStore()
	r := bySubject(t, store, byMember)
	before := []schemas.Event{orderOf("Cust-1"), orderOf("Cust-2"), orderOf("Cust-3"), orderOf("Cust-2")}
	stored := recorded(t, r, before...)
	subject := r.Subjects("Cust-2")[0]
	if diff := cmp.Diff([]string{subject}, stored[1].Subjects); diff != "" || len(store.keys) != 3 {
		t.Fatalf("%d keys, and another subject: %s", len(store.keys), diff)
	}
	for i, e := range stored {
		if text := string(e.Envelope.Body); strings.Contains(text, "Cust-") || strings.Contains(text, "@example") {
			t.Errorf("event %d has %s", i, text)
		}
		if err := r.Open(t.Context(), &e); err != nil || !bytes.Equal(e.Envelope.Body, before[i].Envelope.Body) {
			t.Errorf("event %d: %s, %v", i, e.Envelope.Body, err)
		}
	}
	store.destroy(subject)
	r.Forget(subject)
	for _, opener := range []*Redactor{r, bySubject(t, store, byMember), redactor(t, Config{Originals: originals(t), Subjects: store})} {
		for i, e := range stored {
			err := opener.Open(t.Context(), &e)
			erased := new(ErasedError)
			if isErased := i == 1 || i == 3; isErased != errors.As(err, &erased) || !isErased && !bytes.Equal(e.Envelope.Body, before[i].Envelope.Body) {
				t.Errorf("event %d: %s, %v", i, e.Envelope.Body, err)
			} else if isErased && erased.Subject != subject {
				t.Errorf("%s was erased, want %s", erased.Subject, subject)
			}
		}
	}
	// A key that is made anew is another one.
	again := recorded(t, r, orderOf("Cust-2"))
	if bytes.Equal(again[0].Envelope.Body, stored[1].Envelope.Body) {
		t.Errorf("the hashes of an erased subject can be made again: %s", again[0].Envelope.Body)
	}
	if err := r.Open(t.Context(), &again[0]); err != nil {
		t.Error(err)
	}
	if err := r.Open(t.Context(), &stored[1]); !isErased(err) {
		t.Errorf("a new key: %v", err)
	}
	sealed, err := parseSealed(stored[1].Sealed)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSubjectKey(sealed.subjects[0].hash, bytes.Repeat([]byte{1}, keySize))
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string][]subjectKey{"no key": nil, "another key": {other}} {
		if _, err := sealed.envelope(r.cfg.Originals, keys, stored[1].Fingerprint); err == nil {
			t.Errorf("%s of the subject opens it", name)
		}
	}
}

func isErased(err error) bool {
	_, is := errors.AsType[*ErasedError](err)
	return is
}

// Values have equal hashes in the messages of one subject, and nobody without its key can compute them.
func TestHashesOfASubject(t *testing.T) {
	store := newKeyStore()
	r := bySubject(t, store, byMember)
	stored := recorded(t, r, orderOf("Cust-1"), orderOf("Cust-1"), orderOf("Cust-2"), order(`{"mail":"ann@example.com"}`))
	text := func(i int) string { return string(stored[i].Envelope.Body) }
	if text(0) != text(1) {
		t.Errorf("%s and %s", text(0), text(1))
	}
	plain, customer := r.hash("mail", "ann@example.com"), r.hash("customer", "Cust-1")
	if strings.Contains(text(0), plain) || strings.Contains(text(2), plain) || !strings.Contains(text(3), plain) {
		t.Errorf("%s of a mail address is in\n%s\n%s", plain, text(0), text(2))
	}
	if !strings.Contains(text(0), customer) {
		t.Errorf("%s has no %s, by which the subject is found", text(0), customer)
	}
	if !strings.HasSuffix(customer, strings.TrimPrefix(stored[0].Subjects[0], subjectLabel)) {
		t.Errorf("%s and %s", customer, stored[0].Subjects[0])
	}
}

// A message is about several persons, and ends with each of them.
func TestSeveralSubjects(t *testing.T) {
	store := newKeyStore()
	r := bySubject(t, store, Rule{JSON: "people", Subject: true}, Rule{Header: "x-customer", Subject: true}, Rule{Text: "user_id", Subject: true})
	e := order(`{"people":["P-1","P-2","P-1"]}`)
	e.Envelope.Properties.UserID = "U-1"
	stored := recorded(t, r, e)
	opened := stored[0]
	if err := r.Open(t.Context(), &opened); err != nil || len(opened.Subjects) != 4 || len(store.keys) != 4 {
		t.Fatalf("%q, %d keys, %v", opened.Subjects, len(store.keys), err)
	}
	for _, of := range []string{"P-2", "C-4711", "U-1"} {
		kept := maps.Clone(store.keys)
		store.destroy(r.Subjects(of)...)
		opened, other := stored[0], bySubject(t, store, byMember)
		if err := other.Open(t.Context(), &opened); !isErased(err) {
			t.Errorf("without the key of %s: %v", of, err)
		}
		store.keys = kept
	}
	many := make([]string, maxSubjects+1)
	for i := range many {
		many[i] = fmt.Sprintf("%q", fmt.Sprint("Q-", i))
	}
	if crowd := recorded(t, r, order(`{"people":[`+strings.Join(many, ",")+`]}`))[0]; len(crowd.Sealed) > 0 || strings.Contains(string(crowd.Envelope.Body), "Q-") || len(crowd.Subjects) != len(many)+1 {
		t.Errorf("of a crowd is kept %d bytes: %s", len(crowd.Sealed), crowd.Envelope.Body)
	}
}

// An event that does not know its subjects keeps nothing that erasing them would not end.
func TestUnknownSubjects(t *testing.T) {
	r := bySubject(t, newKeyStore(), byMember, Rule{Header: "x-customer", As: "customer"}, Rule{Text: "stream", As: "stream"})
	whole := orderOf("Cust-1")
	whole.Stream.ID = "Cust-1"
	bodiless, broken := whole, order("{broken, of Cust-1, c1@example.com")
	bodiless.Envelope.Body, bodiless.BodyIn = nil, schemas.BodyInPublished
	bodiless.Failure.Message = "no c1@example.com"
	stored := recorded(t, r, whole, bodiless, bodiless, broken)
	for i, e := range stored[1:] {
		if len(e.Sealed) > 0 || !e.Envelope.Redacted || len(e.Subjects) > 0 {
			t.Errorf("event %d: %d bytes are sealed, of %q", i+1, len(e.Sealed), e.Subjects)
		}
		if text := fmt.Sprint(e, string(e.Envelope.Body)); strings.Contains(text, r.hash("mail", "c1@example.com")) || strings.Contains(text, r.hash("customer", "C-4711")) {
			t.Errorf("event %d has a hash that can be computed: %s", i+1, text)
		}
	}
	if stored[0].Stream.ID != stored[1].Stream.ID || stored[1].Failure.Message == stored[2].Failure.Message || stored[1].ErrorGroup() != stored[2].ErrorGroup() {
		t.Errorf("%q, %q; %q, %q", stored[0].Stream.ID, stored[1].Stream.ID, stored[1].ErrorGroup(), stored[2].ErrorGroup())
	}
	// A header names it in every event.
	byHeader := bySubject(t, newKeyStore(), byMember, Rule{Header: "x-customer", As: "customer", Subject: true})
	if e := recorded(t, byHeader, bodiless)[0]; len(e.Sealed) == 0 || len(e.Subjects) != 1 {
		t.Errorf("%d bytes are sealed, of %q", len(e.Sealed), e.Subjects)
	}
	// A message that names nobody is as without such rules.
	if e := recorded(t, r, order(`{"mail":"c1@example.com"}`))[0]; len(e.Sealed) == 0 || e.Sealed[0] != sealVersion || len(e.Subjects) > 0 {
		t.Errorf("%d bytes are sealed, of %q", len(e.Sealed), e.Subjects)
	}
	audited := schemas.Event{Action: schemas.Audited}
	audited.Audit.Reason = "for c1@example.com"
	if e := recorded(t, r, audited)[0]; e.Audit.Reason != "for "+r.hash("mail", "c1@example.com") {
		t.Errorf("%q", e.Audit.Reason)
	}
}

// Keys are asked for once for a batch, and not again for a while.
func TestKeysOfABatch(t *testing.T) {
	store := newKeyStore()
	r := bySubject(t, store, byMember)
	var batch []schemas.Event
	for i := range 1000 {
		batch = append(batch, orderOf(fmt.Sprint("Cust-", i%100)))
	}
	recorded(t, r, batch...)
	if store.requests != 2 || len(store.keys) != 100 {
		t.Errorf("%d requests, %d keys", store.requests, len(store.keys))
	}
	recorded(t, r, batch...)
	if store.requests != 2 {
		t.Errorf("%d requests", store.requests)
	}
	other := bySubject(t, store, byMember)
	recorded(t, other, batch...)
	if store.requests != 3 {
		t.Errorf("%d requests", store.requests)
	}
}

// Another process has the key of an erased subject in memory for SubjectKeyAge, and no longer.
func TestDestroyedKeyInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newKeyStore()
		here, there := bySubject(t, store, byMember), bySubject(t, store, byMember)
		stored := recorded(t, here, orderOf("Cust-1"))
		recorded(t, there, orderOf("Cust-1"))
		store.destroy(here.Subjects("Cust-1")...)
		here.Forget(here.Subjects("Cust-1")...)
		if err := here.Open(t.Context(), &stored[0]); !isErased(err) {
			t.Errorf("in the process that erases: %v", err)
		}
		time.Sleep(SubjectKeyAge)
		if err := there.Open(t.Context(), &stored[0]); !isErased(err) {
			t.Errorf("in another one: %v", err)
		}
		if again := recorded(t, there, orderOf("Cust-1")); there.Open(t.Context(), &again[0]) != nil || here.Open(t.Context(), &again[0]) != nil {
			t.Error("a new key does not open what it has sealed")
		}
	})
}

// A message that was sealed by a new key opens, although the former is in memory.
func TestKeyThatAnotherProcessMadeAnew(t *testing.T) {
	store := newKeyStore()
	here, there := bySubject(t, store, byMember), bySubject(t, store, byMember)
	recorded(t, there, orderOf("Cust-1"))
	store.destroy(here.Subjects("Cust-1")...)
	stored := recorded(t, here, orderOf("Cust-1"))
	if err := there.Open(t.Context(), &stored[0]); err != nil {
		t.Error(err)
	}
}

// While the store of keys fails nothing is redacted, so that its caller waits.
func TestKeysThatCannotBeHad(t *testing.T) {
	store := newKeyStore()
	r := bySubject(t, store, byMember)
	stored := recorded(t, r, orderOf("Cust-1"))
	store.err = errors.New("away")
	e := orderOf("Cust-2")
	if _, err := r.Prepare(t.Context(), []schemas.Event{e}); !errors.Is(err, store.err) {
		t.Errorf("without the store: %v", err)
	}
	if hidden := r.Event(e); len(hidden.Sealed) > 0 || strings.Contains(string(hidden.Envelope.Body), "Cust-2") {
		t.Errorf("unprepared: %d bytes, %v", len(hidden.Sealed), hidden)
	}
	other := bySubject(t, store, byMember)
	if err := other.Open(t.Context(), &stored[0]); !errors.Is(err, store.err) || isErased(err) {
		t.Errorf("it opens: %v", err)
	}
}

// The keys of subjects are sealed, and belong to their subjects.
func TestKeysOfSubjectsAreSealed(t *testing.T) {
	store := newKeyStore()
	r := bySubject(t, store, byMember)
	stored := recorded(t, r, orderOf("Cust-1"), orderOf("Cust-2"))
	if kept := store.all(); strings.Contains(kept, "Cust-1") {
		t.Error(kept)
	}
	one, two := r.Subjects("Cust-1")[0], r.Subjects("Cust-2")[0]
	store.keys[one], store.keys[two] = store.keys[two], store.keys[one]
	r.Forget(one, two)
	if err := r.Open(t.Context(), &stored[0]); err == nil {
		t.Error("the key of another subject opens it")
	}
	withoutStore := redactor(t, Config{Originals: originals(t)})
	if err := withoutStore.Open(t.Context(), &stored[0]); err == nil || isErased(err) {
		t.Errorf("without a store of keys: %v", err)
	}
}

// A former hash key finds what was recorded under it.
func TestSubjectsByFormerKeys(t *testing.T) {
	former := bySubject(t, newKeyStore(), byMember)
	today, err := New(Config{Rules: []Rule{byMember}, HashKeys: [][]byte{bytes.Repeat([]byte{8}, keySize), testKey}, Originals: originals(t), Subjects: newKeyStore()})
	if err != nil {
		t.Fatal(err)
	}
	if got := today.Subjects("Cust-1"); len(got) != 2 || got[1] != former.Subjects("Cust-1")[0] || !IsSubject(got[0]) {
		t.Errorf("%q", got)
	}
	if got := redactor(t, Config{Rules: allPatterns()}).Subjects("Cust-1"); got != nil {
		t.Errorf("without rules of subjects: %q", got)
	}
	for _, text := range []string{"", "Cust-1", "subject_", "customer_0123456789abcdef0123", "subject_0123456789abcdef012g", "subject_0123456789abcdef01234"} {
		if IsSubject(text) {
			t.Errorf("%q is a subject", text)
		}
	}
}

func TestRulesOfSubjects(t *testing.T) {
	for _, rule := range []Rule{{Pattern: "mail", Subject: true}, {Text: "stream", Subject: true}, {Text: "error", Subject: true}} {
		if rule.Check() == nil {
			t.Errorf("%+v is accepted", rule)
		}
	}
	for _, cfg := range []Config{{}, {Originals: originals(t)}, {Subjects: newKeyStore()}} {
		cfg.Rules, cfg.HashKeys = []Rule{byMember}, [][]byte{testKey}
		if _, err := New(cfg); err == nil {
			t.Errorf("%v, %v: subjects without keys", cfg.Originals, cfg.Subjects)
		}
	}
	// Rules of other messages name none of this one.
	r := bySubject(t, newKeyStore(), Rule{Exchange: "other", JSON: "customer.id", Subject: true})
	if e := recorded(t, r, orderOf("Cust-1"))[0]; len(e.Subjects) > 0 {
		t.Errorf("%q", e.Subjects)
	}
	e := orderOf("Cust-1")
	e.Envelope.Headers = amqp.Table{"X-Customer": amqp.Table{"ids": []any{int64(7), nil, ""}}}
	if got := recorded(t, bySubject(t, newKeyStore(), Rule{Header: "x-customer", Subject: true}), e)[0].Subjects; len(got) != 1 || got[0] != r.Subjects("7")[0] {
		t.Errorf("%q", got)
	}
}

// Originals that were sealed before there were subjects open as they did.
func TestSealOfVersion1(t *testing.T) {
	e := orderOf("Cust-1").Envelope
	salt, nonce := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 12)
	own, err := hkdf.Expand(sha256.New, bytes.Repeat([]byte{0x0a}, 32), "watership original"+string(salt), 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	head := append([]byte{1, 1, 'a'}, salt...)
	sealed := gcm.Seal(append(bytes.Clone(head), nonce...), nonce, wire.Encode(e), append(bytes.Clone(head), "v1:f"...))
	for name, r := range map[string]*Redactor{"by subject": bySubject(t, newKeyStore(), byMember), "without": redactor(t, Config{Originals: originals(t)})} {
		opened, err := r.OpenSealed(t.Context(), sealed, "v1:f")
		if diff := cmp.Diff(e, opened); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", name, err, diff)
		}
	}
}

// Whatever is in the place of a sealed original is refused.
func FuzzSealed(f *testing.F) {
	store := newKeyStore()
	r := bySubject(f, store, byMember)
	e := orderOf("Cust-1")
	redact, err := r.Prepare(f.Context(), []schemas.Event{e})
	if err != nil {
		f.Fatal(err)
	}
	sealed := redact(e).Sealed
	f.Add(sealed)
	f.Add(sealed[:20])
	f.Add([]byte{subjectSealVersion, 1, 'a', 255})
	f.Add([]byte{sealVersion, 255})
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := r.OpenSealed(t.Context(), text, e.Fingerprint); err == nil && !bytes.Equal(text, sealed) {
			t.Errorf("%x opens", text)
		}
	})
}

// A key that does not open, such as after its line of the file of keys is removed, is a matter of its subject alone.
func TestKeyThatDoesNotOpen(t *testing.T) {
	store := newKeyStore()
	stored := recorded(t, bySubject(t, store, byMember), orderOf("Cust-1"), orderOf("Cust-2"))
	var log bytes.Buffer
	r, err := New(Config{Rules: []Rule{byMember, {Pattern: "mail"}}, HashKeys: [][]byte{testKey}, Originals: originals(t), Subjects: store, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	broken := r.Subjects("Cust-1")[0]
	for name, damaged := range map[string][]byte{"damaged": {sealVersion, 1, 'a'}, "sealed by a line that is removed": append([]byte{sealVersion, 1, 'b'}, store.keys[broken][3:]...)} {
		store.keys[broken] = damaged
		r.Forget(broken)
		log.Reset()
		again := recorded(t, r, orderOf("Cust-1"), orderOf("Cust-2"), orderOf("Cust-1"), orderOf("Cust-3"))
		if len(again[0].Sealed) > 0 || len(again[1].Sealed) == 0 || len(again[3].Sealed) == 0 {
			t.Errorf("%s: sealed are %d, %d and %d bytes", name, len(again[0].Sealed), len(again[1].Sealed), len(again[3].Sealed))
		}
		if bytes.Equal(again[0].Envelope.Body, again[2].Envelope.Body) || strings.Contains(string(again[0].Envelope.Body), r.hash("mail", "Cust-1@example.com")) {
			t.Errorf("%s: hashes can be computed again: %s", name, again[0].Envelope.Body)
		}
		if len(again[0].Subjects) != 1 || again[0].Subjects[0] != broken || !bytes.Equal(store.keys[broken], damaged) {
			t.Errorf("%s: the events are of %q, and the key is %x", name, again[0].Subjects, store.keys[broken])
		}
		if n := strings.Count(log.String(), broken); n != 1 || !strings.Contains(log.String(), "original_keys_file") {
			t.Errorf("%s: the log is %s", name, log.String())
		}
		if err := r.Open(t.Context(), &stored[0]); err == nil || isErased(err) || !strings.Contains(err.Error(), "the key of "+broken+" cannot be opened") {
			t.Errorf("%s: %v", name, err)
		}
		if other := stored[1]; r.Open(t.Context(), &other) != nil {
			t.Errorf("%s: the message of another subject does not open", name)
		}
	}
}

// Messages about too many subjects need no keys, and others get theirs in requests of a bounded size.
func TestRequestsAreBounded(t *testing.T) {
	store := newKeyStore()
	people := Rule{JSON: "people", Subject: true}
	r := bySubject(t, store, people)
	about := func(message, n int) schemas.Event {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf(`"P-%d-%d"`, message, i)
		}
		return order(`{"people":[` + strings.Join(names, ",") + `]}`)
	}
	var crowds, groups []schemas.Event
	for i := range 100 {
		crowds = append(crowds, about(i, mostElsewhere))
	}
	if _, err := r.Prepare(t.Context(), crowds); err != nil || len(store.keys) > 0 || store.requests > 0 {
		t.Errorf("messages about too many have %d keys, after %d requests, %v", len(store.keys), store.requests, err)
	}
	for i := range 400 {
		groups = append(groups, about(i, maxSubjects))
	}
	if e := recorded(t, r, groups...)[399]; r.Open(t.Context(), &e) != nil || len(store.keys) != 400*maxSubjects {
		t.Errorf("of %q are %d keys", e.Subjects, len(store.keys))
	}
	if store.largest > 5000 {
		t.Errorf("a request is about %d subjects", store.largest)
	}
	recorded(t, bySubject(t, store, people), groups...)
	if store.largest > 5000 {
		t.Errorf("a request reads %d subjects", store.largest)
	}
}

// Events that were redacted before, such as those of an import, are about subjects that may be erased by now: no key is made for these.
func TestRedactedEventsMakeNoKeys(t *testing.T) {
	store := newKeyStore()
	stored := recorded(t, bySubject(t, store, byMember), orderOf("Cust-1"), orderOf("Cust-2"))
	erased := stored[0].Subjects[0]
	store.destroy(erased)
	r := bySubject(t, store, byMember, Rule{Header: "x-customer", As: "customer"})
	again := recorded(t, r, stored...)
	if len(store.keys) != 1 || store.keys[erased] != nil {
		t.Errorf("there are %d keys", len(store.keys))
	}
	if e := again[1]; r.Open(t.Context(), &e) != nil {
		t.Error("the original of another subject does not open")
	}
	if e := again[0]; !isErased(r.Open(t.Context(), &e)) || !bytes.Equal(e.Sealed, stored[0].Sealed) {
		t.Error("the seal of an erased subject is another one")
	}
	// A new message of the subject in the same batch makes one.
	recorded(t, r, stored[0], orderOf("Cust-1"))
	if len(store.keys) != 2 {
		t.Errorf("there are %d keys", len(store.keys))
	}
}

// A subject is not left out because another one is named many times before it.
func TestSubjectAfterManyRepeats(t *testing.T) {
	store := newKeyStore()
	r := bySubject(t, store, Rule{JSON: "people", Subject: true})
	e := order(`{"people":[` + strings.Repeat(`"P-1",`, mostElsewhere) + `"P-2"]}`)
	stored := recorded(t, r, e)[0]
	if opened := stored; r.Open(t.Context(), &opened) != nil || len(stored.Subjects) != 2 {
		t.Fatalf("it is about %q", stored.Subjects)
	}
	store.destroy(r.Subjects("P-2")...)
	r.Forget(r.Subjects("P-2")...)
	if err := r.Open(t.Context(), &stored); !isErased(err) {
		t.Errorf("the second subject is erased: %v", err)
	}
}

// losingStore loses each key at once, as when another process erases its subject.
type losingStore struct{ *keyStore }

func (s losingStore) KeepSubjectKeys(context.Context, map[string][]byte) (map[string][]byte, error) {
	return nil, nil
}

// A key that another process destroys while it is made is one to ask for again.
func TestKeyThatIsDestroyedAtOnce(t *testing.T) {
	r := bySubject(t, losingStore{newKeyStore()}, byMember)
	_, err := r.Prepare(t.Context(), []schemas.Event{orderOf("Cust-1")})
	failed, is := errors.AsType[*eventstore.Error](err)
	if !is || failed.Kind != eventstore.Unavailable || !strings.Contains(err.Error(), r.Subjects("Cust-1")[0]) {
		t.Errorf("%v", err)
	}
}

// slowStore forgets a key in the middle of a request for it.
type slowStore struct {
	*keyStore
	during func()
}

func (s *slowStore) SubjectKeys(ctx context.Context, subjects []string) (map[string][]byte, error) {
	found, err := s.keyStore.SubjectKeys(ctx, subjects)
	s.during()
	return found, err
}

// A key that is destroyed while it is read is not in memory after that.
func TestKeyThatIsForgottenWhileItIsRead(t *testing.T) {
	store := &slowStore{keyStore: newKeyStore(), during: func() {}}
	r := bySubject(t, store, byMember)
	stored := recorded(t, r, orderOf("Cust-1"))
	subject := stored[0].Subjects[0]
	r.Forget(subject)
	store.during = func() {
		store.destroy(subject)
		r.Forget(subject)
		store.during = func() {}
	}
	recorded(t, r, stored...) // reads
	if err := r.Open(t.Context(), &stored[0]); !isErased(err) {
		t.Errorf("%v", err)
	}
}

// Keys that are too old to be used are not kept in memory either.
func TestOldKeysLeaveTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bySubject(t, newKeyStore(), byMember)
		for i := range 5 {
			recorded(t, r, orderOf(fmt.Sprint("Cust-", i)))
			time.Sleep(SubjectKeyAge)
		}
		if n := len(r.subjects.known); n > 2 {
			t.Errorf("%d keys are in memory", n)
		}
	})
}

// failingKeys opens what was sealed, and cannot seal while away.
type failingKeys struct {
	Keys
	away *bool
}

func (k failingKeys) Newest() (string, []byte, error) {
	if *k.away {
		return "", nil, errors.New("the service of keys is away")
	}
	return k.Keys.Newest()
}

// Without a key to seal with, events are recorded without their originals, as those without subjects are: a batch does
// not end its indexer, and nothing of it is plain.
func TestKeysThatCannotBeSealed(t *testing.T) {
	away, store := false, newKeyStore()
	r := redactor(t, Config{
		Rules:     []Rule{byMember},
		Originals: failingKeys{originals(t), &away}, Subjects: store, Logger: slog.New(slog.DiscardHandler),
	})
	first := recorded(t, r, orderOf("C-4711"))[0]
	away = true
	stored := recorded(t, r, orderOf("C-4712"))[0]
	if len(stored.Sealed) > 0 || !stored.Envelope.Redacted || bytes.Contains(stored.Envelope.Body, []byte("C-4712")) || len(store.keys) != 1 {
		t.Errorf("recorded %+v, with %d keys", stored, len(store.keys))
	}
	if err := r.Open(t.Context(), &first); err != nil {
		t.Error(err)
	}
	away = false
	if again := recorded(t, r, orderOf("C-4712"))[0]; len(again.Sealed) == 0 {
		t.Error("the key is not made later")
	}
}
