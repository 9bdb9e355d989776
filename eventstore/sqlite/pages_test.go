package sqlite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Pages of any size give every event once and in order, also while others are written,
// if the reader gives the highest sequence at its begin.
func TestPagesGiveEveryEventOnce(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 7, 60, 1000} {
		s := installed(t, Config{})
		var want []string
		for n := 1; n <= 60; n++ {
			e := event("", n)
			e.Sequence = int64(n / 4) // several at one place
			create(t, s, schemas.DocumentFormat{}.Document(e))
			want = append(want, e.EventID)
		}
		upTo, err := s.HighestSequence(t.Context())
		if err != nil || upTo != 15 {
			t.Fatalf("the highest sequence is %d, %v", upTo, err)
		}
		var got []string
		sel := eventstore.Selection{Order: eventstore.BySequence, Limit: size, UpTo: upTo}
		for page := range 100 {
			read := 0
			for e, err := range s.Events(t.Context(), sel) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.EventID)
				sel.After = eventstore.Cursor{Sequence: e.Sequence, EventID: e.EventID}
				read++
			}
			if read < size {
				break
			}
			later := event("later-", page)
			later.Sequence = upTo + 1
			create(t, s, schemas.DocumentFormat{}.Document(later))
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %v", size, got)
		}
	}
}

// An index by the text before the first wildcard and the function after it select the
// values that the pattern matches.
func TestPatternsInSQL(t *testing.T) {
	s := installed(t, Config{})
	random := rand.New(rand.NewPCG(81, 0))
	letters := []string{"a", "b", "\x00", "%", "_", "*", "[", "é", "\U0010ffff", "\u0080", "'"}
	text := func(most int) (t string) {
		for range random.IntN(most + 1) {
			t += letters[random.IntN(len(letters))]
		}
		return t
	}
	matched := 0
	for range 3000 {
		pattern := kql.Pattern{text(2), text(1)}
		for range random.IntN(2) {
			pattern = append(pattern, text(2))
		}
		value := text(5)
		if random.IntN(2) == 0 {
			value = pattern.Join(text(2), func(part string) string { return part })
		}
		c := ofPattern(pattern).test("value")
		var got bool
		err := s.readers.QueryRowContext(t.Context(), "SELECT ("+c.sql+") FROM (SELECT ? AS value)", append(slices.Clone(c.args), value)...).Scan(&got)
		if want := pattern.Match(value); err != nil || got != want {
			t.Fatalf("%q of %q: %v, %v", value, pattern, got, err)
		}
		if got {
			matched++
		}
	}
	if matched < 300 {
		t.Errorf("only %d values matched", matched)
	}
	for _, value := range []any{nil, int64(1), 1.5, []byte("a")} {
		c := ofPattern(kql.Pattern{"", ""}).test("value")
		var got bool
		if err := s.readers.QueryRowContext(t.Context(), "SELECT ("+c.sql+") FROM (SELECT ? AS value)", append(slices.Clone(c.args), value)...).Scan(&got); err != nil || got {
			t.Errorf("%T is taken for a text: %v", value, err)
		}
	}
}

// Jobs and handovers are those of a map, with a version that only the last writer knows,
// after any history and in every process that has the file open.
func TestJobsAreTheirModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	processes := []*Store{installed(t, Config{Path: path}), open(t, Config{Path: path})}
	type job struct {
		version  int
		document string
	}
	jobs, handovers := map[string]job{}, map[string]string{}
	random := rand.New(rand.NewPCG(91, 0))
	for n := range 600 {
		s, id, document := processes[random.IntN(2)], fmt.Sprint("job-", random.IntN(8)), fmt.Sprintf(`{"n":%d}`, n)
		current, exists := jobs[id]
		switch random.IntN(4) {
		case 0:
			version, err := s.CreateJob(t.Context(), id, []byte(document))
			if exists {
				wantLine(t, err, "creating job "+id+": the id exists")
				wantKind(t, err, eventstore.BadRequest)
				break
			}
			if jobs[id] = (job{1, document}); version != "1" || err != nil {
				t.Fatalf("created version %q, %v", version, err)
			}
		case 1:
			known := current.version + random.IntN(2) - random.IntN(2)
			version, err := s.SaveJob(t.Context(), id, strconv.Itoa(known), []byte(document))
			if err != nil {
				t.Fatal(err)
			}
			if saved := exists && known == current.version; saved != (version != "") {
				t.Fatalf("version %d of a job at %+v: saved as %q", known, current, version)
			} else if saved {
				jobs[id] = job{known + 1, document}
				if version != strconv.Itoa(known+1) {
					t.Fatalf("version %d became %q", known, version)
				}
			}
		case 2:
			handovers[id] = document
			if err := s.SaveHandover(t.Context(), id, []byte(document)); err != nil {
				t.Fatal(err)
			}
		}
		other := processes[random.IntN(2)]
		got, version, err := other.Job(t.Context(), id)
		if want, exists := jobs[id]; err != nil || string(got) != want.document || exists && version != strconv.Itoa(want.version) {
			t.Fatalf("job %s is %s at %q, %v, want %+v", id, got, version, err, want)
		}
		if got, err := other.Handover(t.Context(), id); err != nil || string(got) != handovers[id] {
			t.Fatalf("handover %s is %s, %v, want %q", id, got, err, handovers[id])
		}
	}
	if _, err := processes[0].SaveJob(t.Context(), "job-1", "x", nil); err == nil || err.Error() != `"x" is no version of a job` {
		t.Errorf("a version that is none: %v", err)
	}
}

// Only sequences that Watership gives count for the highest, by source or of all.
func TestHighestSequences(t *testing.T) {
	s := installed(t, Config{})
	highest := map[string]int64{}
	random := rand.New(rand.NewPCG(92, 0))
	for n := range 200 {
		e := event("", n)
		e.Source, e.Sequence = []string{"shop", "mail"}[random.IntN(2)], random.Int64N(1<<40)
		if random.IntN(10) == 0 {
			e.Sequence = eventstore.MaxSequence + 1 + random.Int64N(1<<40)
		}
		create(t, s, schemas.DocumentFormat{}.Document(e))
		if e.Sequence <= eventstore.MaxSequence {
			highest[e.Source], highest[""] = max(highest[e.Source], e.Sequence), max(highest[""], e.Sequence)
		}
		for source, want := range map[string]int64{"shop": highest["shop"], "mail": highest["mail"], "none": 0} {
			if got, err := s.HighestSequenceOf(t.Context(), source); got != want || err != nil {
				t.Fatalf("of %s: %d, %v, want %d", source, got, err, want)
			}
		}
		if got, err := s.HighestSequence(t.Context()); got != highest[""] || err != nil {
			t.Fatalf("of all: %d, %v, want %d", got, err, highest[""])
		}
	}
}
