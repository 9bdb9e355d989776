package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// secured is a store with logins and indices, as Elasticsearch is.
type secured struct {
	Store
	login            elastic.Login
	away, full, soft error
}

func (s secured) Login(context.Context) (elastic.Login, error) { return s.login, s.away }
func (s secured) Health(context.Context) error                 { return s.full }
func (s secured) Check(context.Context) error                  { return s.soft }
func (s secured) Clock(context.Context) (time.Time, error)     { return time.Now(), nil }
func (s secured) Product() string                              { return "OpenSearch" }
func (s secured) of(t *testing.T, d *doctor) (list []Finding)  { return checkStore(t, d, s, nil) }

func opening(s Store, err error) func(context.Context) (Store, error) {
	return func(context.Context) (Store, error) { return s, err }
}

func checkStore(t *testing.T, d *doctor, s Store, err error) []Finding {
	t.Helper()
	d.Timeout, d.OpenStore = time.Minute, opening(s, err)
	d.checkStore(t.Context())
	return d.findings
}

func TestWhatAStoreNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		store          secured
		verdict        Verdict
		detail, remedy string
	}{
		"nothing": {secured{}, OK, "installed for watership-messages-*", ""},
		"a privilege": {
			secured{login: elastic.Login{User: "eve", Lacks: []string{"monitor for the cluster", "read on x-*"}}},
			Error, "user eve lacks monitor for the cluster; read on x-*", "docs/permissions.md",
		},
		"none of the privileges": {secured{login: elastic.Login{User: "ann"}}, OK, "user ann has those of docs/permissions.md", ""},
		"an answer":              {secured{away: errors.New("no answer")}, Error, "no answer", "start Elasticsearch"},
		"room":                   {secured{full: errors.New("index x is on no node")}, Error, "index x is on no node", "make room on the disks of OpenSearch"},
		"templates":              {secured{soft: errors.New("no template")}, Error, "no template", "run watership setup"},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, test.store.of(t, listing(t, settings(t))), test.verdict, test.detail, test.remedy)
		})
	}
}

// A store that does not answer is one finding, and no further check asks it.
func TestAStoreThatIsAwayIsOneFinding(t *testing.T) {
	d := listing(t, settings(t))
	list := secured{away: errors.New("no answer")}.of(t, d)
	if len(list) != 1 || d.store != nil {
		t.Errorf("%+v\n%s", d.store, text(list))
	}
}

func TestTheRemedyOfAStore(t *testing.T) {
	folder := t.TempDir()
	for name, test := range map[string]struct {
		url  string
		err  error
		want string
	}{
		"another server":   {"http://127.0.0.1:80", elastic.ErrNotElasticsearch, "correct the host and the port in store.url: another server answers there"},
		"a missing file":   {"sqlite:" + filepath.Join(folder, "store.db"), errors.New("x"), "run watership setup, or set store.url to the file that is meant"},
		"a missing folder": {"sqlite:" + filepath.Join(folder, "a b", "store.db"), errors.New("x"), "make the folder '" + filepath.Join(folder, "a b") + "' and run watership setup"},
		"Elasticsearch":    {"http://127.0.0.1:9200", errors.New("x"), "start Elasticsearch, or set store.url with a user that may read and write "},
	} {
		var cfg config.Config
		cfg.Store.URL = config.NewURL(test.url)
		if got := listing(t, cfg).storeRemedy(test.err); len(got) < len(test.want) || got[:len(test.want)] != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestAQuarantinedDocumentIsReported(t *testing.T) {
	s := newSetUpSite(t)
	want(t, of("quarantine", Run(t.Context(), s.Config)), OK, "the store refused no document", "")
	for range 2 {
		systemtest.Record(t, s.system, schemas.Event{
			Action: schemas.Quarantined, QuarantinedAction: schemas.Published, State: schemas.State{Failure: schemas.Failure{Message: "no number"}},
		})
	}
	want(t, of("quarantine", Run(t.Context(), s.Config)), Warning, "2 events in quarantine, the newest since: no number", "watership quarantine rewrite")
}

// A message in the log that is no event is there for reading, and no fault of the store.
func TestAQuarantinedMessageThatIsNoEventIsNoProblem(t *testing.T) {
	s := newSetUpSite(t)
	systemtest.Record(t, s.system, schemas.Event{Action: schemas.Quarantined, State: schemas.State{Failure: schemas.Failure{Message: "no event"}}})
	want(t, of("quarantine", Run(t.Context(), s.Config)), OK, "the store refused no document; 1 message in the log, and no event", "")
}

func TestPrioritiesChangeTheOrderOfTheRecord(t *testing.T) {
	s := newSetUpSite(t)
	systemtest.Record(t, s.system, schemas.Event{Action: schemas.Published})
	if list := of("order", Run(t.Context(), s.Config)); len(list) > 0 {
		t.Error(text(list))
	}
	systemtest.Record(t, s.system, schemas.Event{Action: schemas.Published, ByPriority: true})
	want(t, of("order", Run(t.Context(), s.Config)), Warning, "1 of the newest 2 published messages have a priority", "set tap.queue_type: classic")
}

func TestClassicQueuesKeepTheOrder(t *testing.T) {
	s := newSetUpSite(t, "WATERSHIP_TAP_QUEUE_TYPE=classic")
	systemtest.Record(t, s.system, schemas.Event{Action: schemas.Published, ByPriority: true})
	if list := of("order", Run(t.Context(), s.Config)); len(list) > 0 {
		t.Error(text(list))
	}
}

// saveRecord saves a record of the source of a site.
func saveRecord(t *testing.T, s *site, kind string, content any) {
	t.Helper()
	store, err := s.system.Store(t.Context())
	must(t, err)
	document, err := json.Marshal(content)
	must(t, err)
	if version, err := store.CreateRecord(t.Context(), kind, s.Settings.Source, document); version == "" || err != nil {
		t.Fatalf("%q, %v", version, err)
	}
}

func TestWatermarks(t *testing.T) {
	queue := names().Log()
	for name, test := range map[string]struct {
		session string
		ago     time.Duration
		want    bool
	}{
		"of a session that was killed": {"killed", 90 * time.Minute, true},
		"of a live session":            {"live", 0, false},
		"of none":                      {"", 90 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetUpSite(t)
			watermark := eventstore.Watermark{Session: test.session, Sequence: 7, Updated: time.Now().Add(-test.ago)}
			saveRecord(t, s, eventstore.WatermarkRecord, eventstore.Watermarks{Source: s.Settings.Source, Queues: map[string]eventstore.Watermark{queue: watermark}})
			list := of("watermarks", Run(t.Context(), s.Config))
			if test.want {
				want(t, list, Warning, "readers of new events wait at position 7: no indexer has saved the watermark of queue "+queue+" for 1h3", "run watership serve with the role index")
			} else if len(list) > 0 {
				t.Error(text(list))
			}
		})
	}
}

func TestRulesThatNoProcessEvaluates(t *testing.T) {
	d := listing(t, settings(t))
	d.records().judgeAlerts(&notice.State{}, time.Now())
	want(t, d.findings, Warning, "no process evaluates the rules of alerts", "run watership serve with the role alerts")
}

func TestRulesThatAreEvaluated(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		saved          time.Time
		rules          map[string]*notice.RuleState
		verdict        Verdict
		detail, remedy string
	}{
		"now":                 {now, nil, OK, "host:1 evaluates 0 rules", ""},
		"a while ago":         {now.Add(-2 * time.Minute), nil, Warning, "no process evaluates the rules", ""},
		"in the future":       {now.Add(2 * time.Minute), nil, Warning, "the state of the alerts is of a time in 2m", "set the clocks"},
		"one of them has not": {now, map[string]*notice.RuleState{"many": {Error: "no field"}}, Warning, "rule many cannot be evaluated: no field", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := listing(t, settings(t))
			d.records().judgeAlerts(&notice.State{Holder: "host:1", Saved: test.saved, Rules: test.rules}, now)
			want(t, d.findings, test.verdict, test.detail, test.remedy)
		})
	}
}

func TestWithoutRulesNothingIsSaidOfAlerts(t *testing.T) {
	s := newSetUpSite(t)
	if list := of("alerts", Run(t.Context(), s.Config)); len(list) > 0 {
		t.Error(text(list))
	}
}

// Without the keys of subjects, the store answers, and records no message about one.
func TestSubjectKeysThatAreAway(t *testing.T) {
	folder := t.TempDir()
	environ := []string{"WATERSHIP_REDACT_RULES=[{header: customer, as: customer, subject: true}]", "WATERSHIP_REDACT_SUBJECT_KEYS_FILE=" + filepath.Join(folder, "keys")}
	for name, text := range map[string]string{"HASH_KEY": strings.Repeat("0a", 32), "ORIGINAL_KEYS": "a " + strings.Repeat("0b", 32)} {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		environ = append(environ, "WATERSHIP_REDACT_"+name+"_FILE="+file)
	}
	s := newSetUpSite(t, environ...)
	store, err := s.system.Store(t.Context())
	if err == nil {
		_, err = store.KeepSubjectKeys(t.Context(), map[string][]byte{"subject_a": {1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	want(t, of("store", Run(t.Context(), s.Config)), OK, "SQLite answers", "")
	if err := os.Rename(filepath.Join(folder, "keys"), filepath.Join(folder, "away")); err != nil {
		t.Fatal(err)
	}
	want(t, of("store", Run(t.Context(), s.Config)), Error, "the file is missing", "messages about persons wait")
}
