package sqlite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// An event is read as it was written, with its body and without, wherever its document
// has the body: as the last member, as the first, in the middle, or nowhere.
func TestMembersInAnyOrder(t *testing.T) {
	s := installed(t, Config{})
	random := rand.New(rand.NewPCG(71, 0))
	for n := range 60 {
		e := event("", n+1)
		if n%5 == 0 {
			e.Envelope.Body = nil
			e.Fingerprint, e.BodySize = e.Envelope.Fingerprint(), 0
		}
		create(t, s, shuffled(t, random, schemas.DocumentFormat{}.Document(e)))
		for _, withoutBody := range []bool{false, true} {
			want := e
			want.Version = header.Version
			if withoutBody {
				want.Envelope.Body = nil
			}
			got := only(t, s, eventstore.Selection{Query: node(t, "event.id: "+e.EventID), WithoutBody: withoutBody})
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(schemas.Event{}), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("without body: %v (-want +got):\n%s", withoutBody, diff)
			}
		}
	}
}

// shuffled returns a document with the same members in another order and other white
// space.
func shuffled(t *testing.T, random *rand.Rand, doc schemas.Document) schemas.Document {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc.Source, &members); err != nil {
		t.Fatal(err)
	}
	var list []string
	for name, value := range members {
		list = append(list, fmt.Sprintf("%q%s:%s%s", name, space(random), space(random), value))
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	doc.Source = []byte("{" + space(random) + strings.Join(list, space(random)+","+space(random)) + space(random) + "}")
	return doc
}

func space(random *rand.Rand) string { return strings.Repeat(" ", random.IntN(3)) }

func only(t *testing.T, s *Store, sel eventstore.Selection) (found schemas.Event) {
	t.Helper()
	n := 0
	for e, err := range s.Events(t.Context(), sel) {
		if err != nil {
			t.Fatal(err)
		}
		found = e
		n++
	}
	if n != 1 {
		t.Fatalf("found %d events", n)
	}
	return found
}

// The file has the bytes of a document as they came.
func TestDocumentsAreStoredByteForByte(t *testing.T) {
	s := installed(t, Config{})
	random := rand.New(rand.NewPCG(72, 0))
	for n := range 20 {
		doc := shuffled(t, random, schemas.DocumentFormat{}.Document(event("", n+1)))
		create(t, s, doc)
		stored := 0
		for found, err := range s.documents(t.Context(), eventstore.Selection{Query: node(t, "event.id: "+doc.ID)}) {
			if err != nil || found.id != doc.ID || found.stream != string(doc.Stream) || !bytes.Equal(slices.Concat(found.head, found.body), doc.Source) {
				t.Errorf("got %+v, %v, want %s", found, err, doc.Source)
			}
			stored++
		}
		if stored != 1 {
			t.Errorf("there are %d documents %s", stored, doc.ID)
		}
	}
}

// A document that was cut anywhere is refused with a reason on one line, and leaves
// nothing in any table, while the others of its batch are stored.
func TestCutDocuments(t *testing.T) {
	s := installed(t, Config{})
	whole := schemas.DocumentFormat{}.Document(event("cut", 1))
	good := 0
	for end := range whole.Source {
		if end%7 != 0 {
			continue
		}
		good++
		batch := append(eventDocuments("good", good, good), schemas.Document{ID: "cut", Stream: whole.Stream, Source: whole.Source[:end]})
		results, err := s.Create(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		if results[0].Status != eventstore.Created {
			t.Fatalf("the other document: %+v", results[0])
		}
		if got := results[1]; got.Status != eventstore.Refused || !strings.HasPrefix(got.Reason, "the document ") || strings.Contains(got.Reason, "\n") {
			t.Fatalf("cut after %d bytes: %+v", end, got)
		}
	}
	if n, err := s.Count(t.Context(), eventstore.Selection{}); int(n) != good || err != nil {
		t.Errorf("there are %d events of %d, %v", n, good, err)
	}
	wantConsistent(t, s)
}

// An id of the greatest length is accepted, and what is no id or no stream is refused
// with the reason.
func TestIdentities(t *testing.T) {
	s := installed(t, Config{})
	source := schemas.DocumentFormat{}.Document(event("", 1)).Source
	longest := strings.Repeat("é", maxIDLength/2)
	create(t, s, schemas.Document{ID: longest, Stream: schemas.Failures, Source: source})
	if found, err := s.Find(t.Context(), []string{longest}); err != nil || found[longest].Index != string(schemas.Failures) {
		t.Errorf("found %v, %v", found, err)
	}
	for want, doc := range map[string]schemas.Document{
		"the document has no id":                            {Stream: schemas.Traffic},
		"the document's id has 513 bytes, the limit is 512": {ID: longest + "x", Stream: schemas.Traffic},
		"the document's id is not UTF-8":                    {ID: "\xff", Stream: schemas.Traffic},
		`the document has an unknown stream "archive"`:      {ID: "a", Stream: "archive"},
		`the document has an unknown stream ""`:             {ID: "a"},
	} {
		doc.Source = source
		results, err := s.Create(t.Context(), []schemas.Document{doc})
		if err != nil || results[0].Status != eventstore.Refused || results[0].Reason != want {
			t.Errorf("got %+v, %v, want %s", results, err, want)
		}
	}
}

// The id of a document is its own, whatever its source says.
func TestIDOfTheDocumentCounts(t *testing.T) {
	s := installed(t, Config{})
	doc := schemas.DocumentFormat{}.Document(event("", 1))
	doc.ID = "another"
	create(t, s, doc)
	for text, want := range map[string]int64{"event.id: another": 1, "event.id: 000001": 0} {
		if n, err := s.Count(t.Context(), eventstore.Selection{Query: node(t, text)}); n != want || err != nil {
			t.Errorf("%s: counted %d, %v, want %d", text, n, err, want)
		}
	}
}
