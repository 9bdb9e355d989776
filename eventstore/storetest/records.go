package storetest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/watershipmq/watership/eventstore"
)

// Records stores small documents that change. See the methods of *elastic.Store.
type Records interface {
	Jobs
	eventstore.RecordStore
	DeleteRecord(ctx context.Context, kind, id, version string) (deleted bool, err error)
	Records(ctx context.Context, kind string) iter.Seq2[[]byte, error]
}

// RunRecords runs the suite of records. open returns an empty store, which the test
// removes.
func RunRecords(t *testing.T, open func(t *testing.T) Records) {
	s := open(t)
	t.Run("none", func(t *testing.T) { testNoRecords(t, s) })
	t.Run("a record is created once, and saved by its version", func(t *testing.T) { testRecordVersions(t, s) })
	t.Run("a value is read and saved as a record", func(t *testing.T) { testRecordValue(t, s) })
	t.Run("odd ids", func(t *testing.T) { testOddRecordIDs(t, s) })
	t.Run("of several savers one succeeds", func(t *testing.T) { testRecordContended(t, s) })
	t.Run("a record is deleted by its version", func(t *testing.T) { testRecordDeleted(t, s) })
	t.Run("kinds are apart", func(t *testing.T) { testRecordKinds(t, s) })
	t.Run("many records", func(t *testing.T) { testManyRecords(t, s) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCanceled(t, map[string]func() error{
		"Record":       func() error { _, _, err := s.Record(ctx, "test", "a"); return err },
		"CreateRecord": func() error { _, err := s.CreateRecord(ctx, "test", "a", []byte(`{}`)); return err },
	})
}

func testNoRecords(t *testing.T, s Records) {
	for _, id := range []string{"nobody", "../odd/id?x=1 ", "ünlaut:\"*"} {
		wantRecord(t, s, "test", id, "", "")
	}
	wantRecords(t, s, "test")
	if deleted, err := s.DeleteRecord(t.Context(), "test", "nobody", "1.1"); deleted {
		t.Errorf("deleted a record that does not exist (%v)", err)
	}
}

func testRecordVersions(t *testing.T, s Records) {
	first := createRecord(t, s, "versions", "a", `{"n":1}`)
	if version, err := s.CreateRecord(t.Context(), "versions", "a", []byte(`{"n":2}`)); version != "" || err != nil {
		t.Errorf("created twice: %q, %v", version, err)
	}
	wantRecord(t, s, "versions", "a", first, `{"n":1}`)
	second := saveRecord(t, s, "versions", "a", first, `{"n":9007199254740993}`)
	if version := saveRecord(t, s, "versions", "a", first, `{"n":4}`); version != "" {
		t.Errorf("saved over another version as %q", version)
	}
	wantRecord(t, s, "versions", "a", second, `{"n":9007199254740993}`)
	if version := saveRecord(t, s, "versions", "absent", second, `{}`); version != "" {
		t.Errorf("saved a record that does not exist as %q", version)
	}
	if _, err := s.SaveRecord(t.Context(), "versions", "a", "no version", []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "no version of a versions") {
		t.Errorf("saved by an invalid version: %v", err)
	}
}

func testRecordValue(t *testing.T, s Records) {
	type value struct{ N int }
	got := value{N: 7}
	wantValue := func(n int, wantVersion string) {
		t.Helper()
		version, err := eventstore.ReadRecord(t.Context(), s, "value", "a", &got)
		if got.N != n || version != wantVersion || err != nil {
			t.Fatalf("read %d of version %q, %v; want %d of version %q", got.N, version, err, n, wantVersion)
		}
	}
	save := func(n int, version string) string {
		t.Helper()
		newVersion, err := eventstore.SaveRecord(t.Context(), s, "value", "a", version, value{n})
		if err != nil {
			t.Fatal(err)
		}
		return newVersion
	}
	wantValue(7, "")
	first := save(1, "")
	wantValue(1, first)
	if version := save(2, ""); version != "" {
		t.Errorf("created over another as version %q", version)
	}
	second := save(3, first)
	wantValue(3, second)
	if version := save(4, first); version != "" {
		t.Errorf("saved over another version as %q", version)
	}
	wantValue(3, second)
	var number int
	if _, err := eventstore.ReadRecord(t.Context(), s, "value", "a", &number); err == nil || !strings.Contains(err.Error(), "value a cannot be read") {
		t.Errorf("read into another type: %v", err)
	}
	if _, err := eventstore.SaveRecord(t.Context(), s, "value", "a", second, func() {}); err == nil {
		t.Error("saved a function")
	}
}

// testOddRecordIDs uses ids such as the names of sources, which have a slash.
func testOddRecordIDs(t *testing.T, s Records) {
	for _, id := range []string{"rabbit@host/shop", "../odd/id?x=1 #", "ünlaut:\"*%2F", strings.Repeat("long", 500)} {
		first := createRecord(t, s, "odd", id, `{"n":1}`)
		second := saveRecord(t, s, "odd", id, first, `{"n":2}`)
		wantRecord(t, s, "odd", id, second, `{"n":2}`)
		if deleted, err := s.DeleteRecord(t.Context(), "odd", id, second); !deleted || err != nil {
			t.Errorf("deleted %q: %t, %v", id, deleted, err)
		}
	}
}

func testRecordContended(t *testing.T, s Records) {
	version := createRecord(t, s, "contended", "a", `{}`)
	var savers sync.WaitGroup
	saved := make(chan string, 8)
	for n := range 8 {
		savers.Go(func() {
			given, err := s.SaveRecord(t.Context(), "contended", "a", version, fmt.Appendf(nil, `{"by":%d}`, n))
			if err != nil {
				t.Error(err)
			}
			if given != "" {
				saved <- given
			}
		})
	}
	savers.Wait()
	close(saved)
	if len(saved) != 1 {
		t.Fatalf("%d savers of one version succeeded", len(saved))
	}
	if _, last, _ := s.Record(t.Context(), "contended", "a"); last != <-saved {
		t.Errorf("the version is %q", last)
	}
}

func testRecordDeleted(t *testing.T, s Records) {
	first := createRecord(t, s, "deleted", "a", `{"n":1}`)
	second := saveRecord(t, s, "deleted", "a", first, `{"n":2}`)
	if deleted, err := s.DeleteRecord(t.Context(), "deleted", "a", first); deleted || err != nil {
		t.Errorf("deleted by a former version: %t, %v", deleted, err)
	}
	wantRecord(t, s, "deleted", "a", second, `{"n":2}`)
	for _, want := range []bool{true, false} {
		if deleted, err := s.DeleteRecord(t.Context(), "deleted", "a", second); deleted != want || err != nil {
			t.Errorf("deleted: %t, %v; want %t", deleted, err, want)
		}
	}
	wantRecord(t, s, "deleted", "a", "", "")
	third := createRecord(t, s, "deleted", "a", `{"n":3}`)
	wantRecord(t, s, "deleted", "a", third, `{"n":3}`)
}

func testRecordKinds(t *testing.T, s Records) {
	a := createRecord(t, s, "kind", "same", `{"of":"kind"}`)
	b := createRecord(t, s, "kind-2", "same", `{"of":"kind-2"}`)
	c := createRecord(t, s, "job", "same", `{"of":"record"}`)
	createJob(t, s, "of-the-replayer", `{"of":"job"}`)
	wantRecord(t, s, "kind", "same", a, `{"of":"kind"}`)
	wantRecord(t, s, "kind-2", "same", b, `{"of":"kind-2"}`)
	wantRecord(t, s, "job", "same", c, `{"of":"record"}`)
	wantRecords(t, s, "kind", `{"of":"kind"}`)
	wantRecords(t, s, "kind-2", `{"of":"kind-2"}`)
}

func testManyRecords(t *testing.T, s Records) {
	const n = 250 // more than a page
	var want []string
	for i := range n {
		document := fmt.Sprintf(`{"n":%d}`, i)
		createRecord(t, s, "many", fmt.Sprintf("id-%03d", i), document)
		want = append(want, document)
	}
	slices.Reverse(want)
	wantRecords(t, s, "many", want...)
	for _, err := range s.Records(t.Context(), "many") { // stops early
		if err != nil {
			t.Error(err)
		}
		break
	}
}

func createRecord(t *testing.T, s Records, kind, id, document string) (version string) {
	t.Helper()
	version, err := s.CreateRecord(t.Context(), kind, id, []byte(document))
	if err != nil || version == "" {
		t.Fatalf("creating %s %s: %q, %v", kind, id, version, err)
	}
	return version
}

func saveRecord(t *testing.T, s Records, kind, id, version, document string) (newVersion string) {
	t.Helper()
	newVersion, err := s.SaveRecord(t.Context(), kind, id, version, []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return newVersion
}

func wantRecord(t *testing.T, s Records, kind, id, wantVersion, want string) {
	t.Helper()
	got, version, err := s.Record(t.Context(), kind, id)
	if string(got) != want || version != wantVersion || err != nil {
		t.Errorf("%s %s is %s of version %q, %v; want %s of version %q", kind, id, got, version, err, want, wantVersion)
	}
}

func wantRecords(t *testing.T, s Records, kind string, want ...string) {
	t.Helper()
	var got []string
	for document, err := range s.Records(t.Context(), kind) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(document))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%ss are %q, want %q", kind, got, want)
	}
}
