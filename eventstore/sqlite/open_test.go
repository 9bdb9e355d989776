package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite/internal/functions"
	"github.com/watershipmq/watership/schemas"
)

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign")
	execSQL(t, foreign, "CREATE TABLE theirs (a)")
	newer := installed(t, Config{}).path
	execSQL(t, newer, "PRAGMA user_version = 99")
	for _, test := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "needs the path of a file"},
		{Config{Path: "a\x00b"}, "NUL"},
		{Config{Path: dir}, "is a directory"},
		{Config{Path: text}, "not a database"},
		{Config{Path: foreign}, "choose another path"},
		{Config{Path: newer}, "has version 99, this Watership knows up to 11: upgrade it"},
		{Config{Path: text, Timeout: -1}, "is negative"},
		{Config{Path: text, Retention: map[schemas.Stream]time.Duration{"all": 1}}, "the streams are traffic and failures"},
		{Config{Path: text, Retention: map[schemas.Stream]time.Duration{schemas.Traffic: -1}}, "is negative"},
	} {
		s, err := Open(t.Context(), test.cfg)
		if err == nil {
			_ = s.Close()
		}
		wantLine(t, err, test.want)
	}
}

// execSQL changes a file without the store.
func execSQL(t testing.TB, path, statement string) {
	t.Helper()
	driver, err := functions.NewDriver()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	db := sql.OpenDB(connector{driver, dsn(Config{Path: path}, "")})
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestNothingInstalled: only Install creates the file, and requests without one name the
// remedy.
func TestNothingInstalled(t *testing.T) {
	s := open(t, Config{})
	wantLine(t, s.Check(t.Context()), "run `watership setup`")
	_, err := s.Count(t.Context(), eventstore.Selection{})
	wantLine(t, err, "counting events", "run `watership setup`")
	_, err = s.Create(t.Context(), eventDocuments("", 1, 1))
	wantLine(t, err, "creating 1 documents", "run `watership setup`")
	if _, err := os.Stat(s.path); !os.IsNotExist(err) {
		t.Errorf("there is a file: %v", err)
	}
	if err := os.WriteFile(s.path, nil, 0o600); err != nil { // an Install that was cut short
		t.Fatal(err)
	}
	_, err = s.Count(t.Context(), eventstore.Selection{})
	wantLine(t, err, "counting events", "run `watership setup`")
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(s.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

// TestSchemaHasTheMapping: each field of the mapping has a column or terms.
func TestSchemaHasTheMapping(t *testing.T) {
	s := installed(t, Config{})
	columns := column(t, s, "SELECT name FROM pragma_table_xinfo('event')")
	want := append([]string{"n", "failure", "kept_in", "stream", "id"}, s.layout.columns...)
	slices.Sort(columns)
	slices.Sort(want)
	if !slices.Equal(columns, want) {
		t.Errorf("the table event has\n%q, the mapping\n%q", columns, want)
	}
	indexes := column(t, s, "SELECT name FROM pragma_index_list('event')")
	for name, field := range s.layout.mapped {
		if field.Type != kql.Keyword || hasTerms(field) {
			continue
		}
		if !slices.Contains(indexes, "event by "+name) {
			t.Errorf("%s has neither terms nor an index", name)
		}
	}
	if texts := column(t, s, "SELECT name FROM pragma_table_info('text')"); !slices.Equal(texts, s.layout.textColumns) && len(texts) != len(s.layout.textColumns) {
		t.Errorf("the table text has %q, the mapping %q", texts, s.layout.textColumns)
	}
}

func column(t *testing.T, s *Store, statement string) []string {
	t.Helper()
	rows, err := s.readers.QueryContext(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		list = append(list, value)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func wantLine(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v, want an error of one line", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}
