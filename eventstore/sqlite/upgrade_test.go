package sqlite

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

// version1 copies a file of version 1, with five events and a job.
func version1(t *testing.T) (path string) { return formerFile(t, "version1.db.gz") }

func formerFile(t *testing.T, name string) (path string) {
	t.Helper()
	zipped, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer zipped.Close()
	content, err := gzip.NewReader(zipped)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "store.db")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(file, content); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUpgrade: the events of an older Watership are there after an upgrade, once, even if
// several processes upgrade the file at the same time.
func TestUpgrade(t *testing.T) {
	path := version1(t)
	s := open(t, Config{Path: path})
	wantLine(t, s.Check(t.Context()), "has version 1", "run `watership setup`")
	var work sync.WaitGroup
	for range 4 {
		other := open(t, Config{Path: path})
		work.Go(func() {
			if err := other.Install(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if n, err := s.Count(t.Context(), eventstore.Selection{}); n != 5 || err != nil {
		t.Errorf("counted %d events, %v", n, err)
	}
	if job, version, err := s.Job(t.Context(), "job"); string(job) != `{"sent":1}` || version != "1" || err != nil {
		t.Errorf("its job is %s, version %q, %v", job, version, err)
	}
	create(t, s, eventDocuments("new-", 6, 6)...) // its body begins with hello, like the body of event 5
	for asked, want := range map[string]int64{
		"body.text: 東京": 1, "body.text: 单": 1, "body.text: 😀": 1, "body.text: 3.14": 1, "body.text: don't": 1, "body.text: 14": 0,
		"body.text: ordinary": 1, "body.text: hello": 2, "error.message: 段": 1, `error.message: "値段"`: 1, "error.stack_trace: main.go": 1,
	} {
		node, err := kql.Parse(asked)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.Count(t.Context(), eventstore.Selection{Query: node}); n != want || err != nil {
			t.Errorf("%s: found %d, %v; want %d", asked, n, err, want)
		}
	}
	wantSameTables(t, s, installed(t, Config{}))
}

// TestUpgradeOfVersion3: events of a file of version 3, the last of which is poison, are
// unchanged, and found by all of their fields. The upgraded file can shrink, too.
func TestUpgradeOfVersion3(t *testing.T) {
	s := installed(t, Config{Path: formerFile(t, "version3.db.gz"), Labels: []string{"labels.tenant"}})
	for asked, want := range map[string]int64{
		"": 5, "event.id: 000005": 1, "watership.queue: Orders*": 1, `watership.queue: "Orders EU"`: 1, "headers.tenant: t5": 1,
		"headers: t*": 5, "labels.tenant: t5": 1, "numeric_labels.n > 4": 1, "messaging.message.id: m-3": 1, "body.text: hello": 5,
		`body.text: "hello number"`: 5, "body.json.order: 2": 1, "error.message: connect": 1, "watership.class: unavailable": 1,
	} {
		if n, err := s.Count(t.Context(), eventstore.Selection{Query: node(t, asked)}); n != want || err != nil {
			t.Errorf("%s: found %d, %v; want %d", asked, n, err, want)
		}
	}
	number := 0
	for got, err := range s.Events(t.Context(), eventstore.Selection{Order: eventstore.BySequence}) {
		number++
		want := event("", number)
		if err != nil || got.EventID != want.EventID || !bytes.Equal(got.Envelope.Body, want.Envelope.Body) || got.Envelope.Fingerprint() != want.Fingerprint {
			t.Errorf("event %d is %+v, %v", number, got, err)
		}
	}
	if state := column(t, s, "SELECT document FROM record WHERE kind = 'handover'")[0]; state != "state" {
		t.Errorf("its handover is %q", state)
	}
	if vacuum := column(t, s, "SELECT auto_vacuum FROM pragma_auto_vacuum")[0]; vacuum != "2" {
		t.Errorf("auto_vacuum is %s", vacuum)
	}
	wantSameTables(t, s, installed(t, Config{}))
	wantConsistent(t, s)
}

// formerRecords are the tables of version 5 instead of the records.
const formerRecords = `DROP TABLE record;
	CREATE TABLE job (id TEXT PRIMARY KEY, version INTEGER NOT NULL, document BLOB NOT NULL);
	CREATE TABLE handover (name TEXT PRIMARY KEY, document BLOB NOT NULL);
	INSERT INTO job VALUES ('a', 7, '{"sent":1}'); INSERT INTO handover VALUES ('queue', '{"up_to":1}');`

func wantFormerRecords(t *testing.T, s *Store) {
	t.Helper()
	if document, version, err := s.Job(t.Context(), "a"); string(document) != `{"sent":1}` || version != "7" || err != nil {
		t.Errorf("the job is %s of version %q, %v", document, version, err)
	}
	if document, err := s.Handover(t.Context(), "queue"); string(document) != `{"up_to":1}` || err != nil {
		t.Errorf("the handover is %s, %v", document, err)
	}
}

// withoutCounts makes a file of version 11 one of version 10.
const withoutCounts = `ALTER TABLE key DROP COLUMN multivalued; DROP TABLE tally;`

// TestUpgradeOfVersion10: of the keys of former events it is not known whether an event has several values, and the
// events without them are counted all the same. Former events are counted with later ones.
func TestUpgradeOfVersion10(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	former := installed(t, Config{Path: path})
	listed, other := event("", 1), event("", 2)
	listed.Envelope.Headers = amqp.Table{"region": []any{"north", "south"}}
	other.Envelope.Headers = nil
	create(t, former, schemas.DocumentFormat{}.Document(listed), schemas.DocumentFormat{}.Document(other))
	if err := former.Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, withoutCounts+"PRAGMA user_version = 10")
	wantLine(t, open(t, Config{Path: path}).Check(t.Context()), "has version 10", "run `watership setup`")
	s := installed(t, Config{Path: path})
	later := event("", 3)
	later.Envelope.Headers = amqp.Table{"region": "north", "size": "large"}
	create(t, s, schemas.DocumentFormat{}.Document(later))
	for field, want := range map[string]int64{"headers.region": 1, "headers.size": 2} {
		counted, err := s.TopValues(t.Context(), eventstore.Selection{}, field, 10)
		if err != nil || counted.Without != want {
			t.Errorf("%s: %+v, %v; want %d without", field, counted, err, want)
		}
	}
	if counted, err := s.TopValues(t.Context(), eventstore.Selection{}, "event.action", 10); err != nil || len(counted.Values) != 1 || counted.Values[0].Count != 3 {
		t.Errorf("by action: %+v, %v", counted, err)
	}
	wantSameTables(t, s, installed(t, Config{}))
	wantConsistent(t, s)
}

// withoutReceivers makes a file of version 11 one of version 9.
const withoutReceivers = withoutCounts + `DROP INDEX "event by watership.receiver"; ALTER TABLE event DROP COLUMN "watership.receiver";
	DELETE FROM sqlite_stat1 WHERE idx = 'event by watership.receiver';`

// TestUpgradeOfVersion9: former events have no receiver, and later ones are found and counted by theirs.
func TestUpgradeOfVersion9(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	former := installed(t, Config{Path: path})
	create(t, former, eventDocuments("", 1, 3)...)
	if err := former.Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, withoutReceivers+"PRAGMA user_version = 9")
	wantLine(t, open(t, Config{Path: path}).Check(t.Context()), "has version 9", "run `watership setup`")
	s := installed(t, Config{Path: path})
	later := event("", 4)
	later.Receiver = "hooks.example"
	create(t, s, schemas.DocumentFormat{}.Document(later))
	for asked, want := range map[string]int64{"": 4, "watership.receiver: hooks.example": 1, "not watership.receiver: *": 3} {
		if n, err := s.Count(t.Context(), eventstore.Selection{Query: node(t, asked)}); n != want || err != nil {
			t.Errorf("%s: found %d, %v; want %d", asked, n, err, want)
		}
	}
	by, err := s.Percentiles(t.Context(), eventstore.Selection{}, "watership.receiver", 10, "event.duration")
	if err != nil || len(by.Values) != 1 || by.Values[0].Text != "hooks.example" {
		t.Errorf("%+v, %v", by, err)
	}
	wantSameTables(t, s, installed(t, Config{}))
	wantConsistent(t, s)
}

// withoutPeriods makes a file of version 11 one of version 8.
const withoutPeriods = withoutReceivers + `DROP INDEX "event by age"; ALTER TABLE event DROP COLUMN kept_in;
	CREATE INDEX "event by age" ON event (failure, "event.sequence");
	INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('event', 'event by age', '1000000 500000 1');`

// TestUpgradeOfVersion8: former events have no period, and retention removes them by their age.
func TestUpgradeOfVersion8(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	former := installed(t, Config{Path: path})
	create(t, former, eventDocuments("", 1, 3)...)
	if err := former.Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, withoutPeriods+"PRAGMA user_version = 8")
	wantLine(t, open(t, Config{Path: path}).Check(t.Context()), "has version 8", "run `watership setup`")
	s := installed(t, Config{Path: path, Retention: hourOfTraffic})
	wantSameTables(t, s, installed(t, Config{}))
	if stat, want := column(t, s, "SELECT stat FROM sqlite_stat1 WHERE idx = 'event by age'"), "1000000 500000 250000 1"; len(stat) != 1 || stat[0] != want {
		t.Errorf("the statistics are %q", stat)
	}
	if removed, err := s.Retain(t.Context()); removed != 3 || err != nil {
		t.Errorf("removed %d events, %v", removed, err)
	}
	wantConsistent(t, s)
}

// formerIndexes makes a file of version 11 one of version 7.
const formerIndexes = withoutPeriods + `DROP INDEX "event given up"; DROP INDEX "replay by watership.fingerprint"; DROP INDEX "event by watership.replay.of";
	DROP INDEX "event by watership.message";
	CREATE INDEX "event given up" ON event ("event.sequence", "event.id", "event.action", "watership.quarantined_action")
		WHERE "event.action" = 'poisoned' OR "watership.quarantined_action" = 'poisoned';
	CREATE INDEX "replay by watership.fingerprint" ON event (substr("watership.fingerprint", -16)) WHERE "watership.replay.of" IS NOT NULL;
	CREATE INDEX "event by watership.message" ON event ("watership.message") WHERE "watership.message" IS NOT NULL;
	CREATE INDEX "event by watership.replay.of" ON event ("watership.replay.of") WHERE "watership.replay.of" IS NOT NULL;`

// withoutTimes makes a file of version 11 one of version 6.
const withoutTimes = formerIndexes + `ALTER TABLE event DROP COLUMN "watership.queue_time"; ALTER TABLE event DROP COLUMN "watership.total_time";`

// withoutStreams makes a file of version 11 one of version 5.
const withoutStreams = withoutTimes + `DROP INDEX "event by watership.stream.id";
	ALTER TABLE event DROP COLUMN "watership.stream.id"; ALTER TABLE event DROP COLUMN "watership.stream.version";
	DELETE FROM sqlite_stat1 WHERE idx = 'event by watership.stream.id';`

// TestUpgradeOfVersion5: the columns of streams are added, and jobs and handovers become
// records. Former events have no stream, and later ones are found by theirs.
func TestUpgradeOfVersion5(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	former := installed(t, Config{Path: path})
	create(t, former, eventDocuments("", 1, 3)...)
	if err := former.Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, formerRecords+withoutStreams+"PRAGMA user_version = 5")
	wantLine(t, open(t, Config{Path: path}).Check(t.Context()), "has version 5", "run `watership setup`")
	s := installed(t, Config{Path: path})
	later := event("", 4)
	later.Stream = schemas.MessageStream{ID: "order-4", Version: 2, HasVersion: true}
	create(t, s, schemas.DocumentFormat{}.Document(later))
	for asked, want := range map[string]int64{"": 4, "watership.stream.id: order-4": 1, "watership.stream.version >= 2": 1, "not watership.stream.id: *": 3} {
		if n, err := s.Count(t.Context(), eventstore.Selection{Query: node(t, asked)}); n != want || err != nil {
			t.Errorf("%s: found %d, %v; want %d", asked, n, err, want)
		}
	}
	wantFormerRecords(t, s)
	wantSameTables(t, s, installed(t, Config{}))
	wantConsistent(t, s)
}

// TestUpgradeOfVersion7: failures are found by indexes that have their summaries.
func TestUpgradeOfVersion7(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	former := installed(t, Config{Path: path})
	failed := event("", 2)
	failed.Action = schemas.Poisoned
	create(t, former, eventDocuments("", 1, 1)...)
	create(t, former, schemas.DocumentFormat{}.Document(failed))
	if err := former.Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, formerIndexes+"PRAGMA user_version = 7")
	wantLine(t, open(t, Config{Path: path}).Check(t.Context()), "has version 7", "run `watership setup`")
	s := installed(t, Config{Path: path})
	found := 0
	for summary, err := range s.Summaries(t.Context(), eventstore.Selection{Query: history.GivenUp()}) {
		found++
		if want := eventstore.Summarize(failed); err != nil || summary != want {
			t.Errorf("found %+v, %v, want %+v", summary, err, want)
		}
	}
	if found != 1 {
		t.Errorf("found %d failures", found)
	}
	wantSameTables(t, s, installed(t, Config{}))
	wantConsistent(t, s)
}

// TestUpgradeOfVersion6: the columns of times are added, and records stay.
func TestUpgradeOfVersion6(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	former := installed(t, Config{Path: path})
	create(t, former, eventDocuments("", 1, 3)...)
	if err := former.Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, `INSERT INTO record VALUES ('job', 'a', 7, '{"sent":1}');`+withoutTimes+"PRAGMA user_version = 6")
	wantLine(t, open(t, Config{Path: path}).Check(t.Context()), "has version 6", "run `watership setup`")
	s := installed(t, Config{Path: path})
	later := event("", 4)
	later.QueueTime, later.TotalTime = 3*time.Second, 5*time.Second
	create(t, s, schemas.DocumentFormat{}.Document(later))
	for asked, want := range map[string]int64{"": 4, "watership.queue_time: 3000000000": 1, "watership.total_time >= 5000000000": 1, "not watership.queue_time: *": 3} {
		if n, err := s.Count(t.Context(), eventstore.Selection{Query: node(t, asked)}); n != want || err != nil {
			t.Errorf("%s: found %d, %v; want %d", asked, n, err, want)
		}
	}
	if job, _, err := s.Job(t.Context(), "a"); string(job) != `{"sent":1}` || err != nil {
		t.Errorf("the job is %s, %v", job, err)
	}
	wantSameTables(t, s, installed(t, Config{}))
	wantConsistent(t, s)
}

// TestUpgradeOfVersion4: indexes and the columns of streams are added, and jobs and handovers
// become records.
func TestUpgradeOfVersion4(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	former := installed(t, Config{Path: path})
	create(t, former, eventDocuments("", 1, 3)...)
	if err := former.Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, formerRecords+withoutStreams+`DROP INDEX "event given up"; DROP INDEX "replay by watership.fingerprint"; PRAGMA user_version = 4`)
	wantLine(t, open(t, Config{Path: path}).Check(t.Context()), "has version 4", "run `watership setup`")
	s := installed(t, Config{Path: path})
	if n, err := s.Count(t.Context(), eventstore.Selection{}); n != 3 || err != nil {
		t.Errorf("counted %d events, %v", n, err)
	}
	wantSameTables(t, s, installed(t, Config{}))
	wantConsistent(t, s)
	if twice := column(t, s, "SELECT idx FROM sqlite_stat1 GROUP BY idx HAVING count(*) > 1"); len(twice) > 0 {
		t.Errorf("two statistics of %q", twice)
	}
}

// wantSameTables compares the schemas of two files.
func wantSameTables(t *testing.T, upgraded, made *Store) {
	t.Helper()
	const tables = "SELECT name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY name"
	got, want := column(t, upgraded, tables), column(t, made, tables)
	if len(got) != len(want) {
		t.Fatalf("an upgraded file has the tables %q, a new one %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("an upgraded file has %s, a new one %s", got[i], want[i])
		}
	}
}

// TestUpgradeOfAnInvalidDocument: a document that cannot be parsed stays in the file, and
// the others are upgraded.
func TestUpgradeOfAnInvalidDocument(t *testing.T) {
	path := version1(t)
	execSQL(t, path, "UPDATE document SET head = x'7b7b' WHERE n = 5")
	var logged bytes.Buffer
	s := open(t, Config{Path: path, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logged.String(), "level=WARN") {
		t.Errorf("logged %q, want a warning", logged.String())
	}
	for asked, want := range map[string]int64{"": 5, "body.text: 東京": 1, "body.text: hello": 0} {
		if n, err := s.Count(t.Context(), eventstore.Selection{Query: node(t, asked)}); n != want || err != nil {
			t.Errorf("%s: found %d, %v; want %d", asked, n, err, want)
		}
	}
}

// TestUpgradeIsAllOrNothing: an upgrade that fails leaves the file at its version.
func TestUpgradeIsAllOrNothing(t *testing.T) {
	path := version1(t)
	execSQL(t, path, "ALTER TABLE document RENAME COLUMN head TO top")
	s := open(t, Config{Path: path})
	wantLine(t, s.Install(t.Context()), "creating the tables", "no such column: head")
	wantLine(t, s.Check(t.Context()), "has version 1")
	if n := column(t, s, "SELECT count(*) FROM sqlite_schema WHERE name = 'record'")[0]; n != "0" {
		t.Error("the first step of the upgrade was not undone")
	}
	execSQL(t, path, "ALTER TABLE document RENAME COLUMN top TO head")
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Count(t.Context(), eventstore.Selection{Query: node(t, "body.text: 東京")}); n != 1 || err != nil {
		t.Errorf("found %d, %v", n, err)
	}
}
