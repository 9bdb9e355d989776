package console_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

// planted are values that rules replace.
func planted() []string { return []string{"ana@example.com", "C-4711-Secret"} }

const (
	plantedBody = `{"customer": "C-4711-Secret",` + "\r\n" + ` "mail": "ana@example.com", "price": 1.50}`
	planting    = "[{pattern: mail}, {header: x-customer, as: customer}, {json: customer, as: customer}]"
)

// redacting are the settings of a system that replaces what is planted; keys are the originals'.
func redacting(t *testing.T, folder string) (settings []string, keys string) {
	t.Helper()
	for name, text := range map[string]string{"hashes": strings.Repeat("0a", 32), "originals": "a " + strings.Repeat("0b", 32)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings = []string{"WATERSHIP_REDACT_RULES=" + planting, "WATERSHIP_REDACT_HASH_KEY_FILE=" + filepath.Join(folder, "hashes")}
	return settings, "WATERSHIP_REDACT_ORIGINAL_KEYS_FILE=" + filepath.Join(folder, "originals")
}

// The original of a message is shown to who may read originals and says why, by the API and on a page, with an audit
// event before. Everybody else sees hashes, and nothing that is written has a planted value.
func TestOriginalsAreReadForAReason(t *testing.T) {
	keyFolder, storeFolder, tokens := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "tokens.json")
	settings, keys := redacting(t, keyFolder)
	settings = append(settings, "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(storeFolder, "store.db"), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	secrets := map[string]string{}
	for _, token := range []access.Token{
		{Name: "ora", Role: access.Viewer, Bodies: true, Originals: true},
		{Name: "hed", Role: access.Viewer, Originals: true},
		{Name: "lim", Role: access.Viewer, Bodies: true, Originals: true, Queues: []string{"other"}},
		{Name: "vic", Role: access.Viewer, Bodies: true},
		{Name: "adm", Role: access.Admin, Bodies: true},
	} {
		secret, err := access.OpenTokenFile(tokens).Create(token)
		if err != nil {
			t.Fatal(err)
		}
		secrets[token.Name] = "Bearer " + secret
	}
	var log lockedBuffer
	s := newLoggingSystem(t, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), append(settings, keys)...)
	s.publish(t, "order-1", plantedBody, amqp.Table{"x-customer": "C-4711-Secret", "n": int32(5)})
	s.await(t, 1, "action: published")
	fingerprint := s.events(t, "action: published")[0].Fingerprint

	get := func(s served, who, path string) document {
		return s.get(t, path, "Authorization", secrets[who], access.ReasonHeader, "ticket 7")
	}
	const message, export = "/api/v1/messages/order-1", "/api/v1/events/export?query=action:published"
	for _, test := range []struct {
		who, path string
		status    int
		shows     string // of what is planted: "all", "header" or "" for none
	}{
		{"ora", message + "?body=true", 200, ""},
		{"ora", message + "?body=true&original=true", 200, "all"},
		{"ora", message + "?original=true", 200, "header"},
		{"hed", message + "?original=true", 200, "header"},
		{"hed", message + "?body=true&original=true", 403, ""},
		{"lim", message + "?original=true", 404, ""},
		{"vic", message + "?original=true", 403, ""},
		{"adm", message + "?body=true&original=true", 403, ""},
		{"ora", message + "/body?original=true", 200, "all"},
		{"ora", message + "/body", 200, ""},
		{"hed", message + "/body?original=true", 403, ""},
		{"vic", message + "/body?original=true", 403, ""},
		{"ora", export + "&original=true", 200, "all"},
		{"ora", export, 200, ""},
		{"hed", export + "&original=true", 403, ""},
		{"vic", export + "&original=true", 403, ""},
	} {
		got := get(s, test.who, test.path)
		shown := slices.DeleteFunc(planted(), func(value string) bool { return !strings.Contains(got.text, value) })
		want := map[string]int{"all": 2, "header": 1}[test.shows]
		if got.StatusCode != test.status || len(shown) != want || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s reads %s: %d, %q of %s", test.who, test.path, got.StatusCode, shown, got.text)
		}
	}
	if body := get(s, "ora", message+"/body?original=true"); body.text != plantedBody {
		t.Errorf("another body than the published one: %q", body.text)
	}
	exported := strings.TrimSpace(get(s, "ora", export+"&original=true").text)
	e, err := schemas.ParseDocument([]byte(exported))
	if err != nil || e.Envelope.Redacted || !e.Redacted || len(e.Sealed) > 0 || e.Envelope.Fingerprint() != fingerprint || string(e.Envelope.Body) != plantedBody {
		t.Errorf("%+v, %v", e, err)
	}
	for _, path := range []string{message + "?original=true", message + "/body?original=true", export + "&original=true"} {
		if got := s.get(t, path, "Authorization", secrets["ora"]); got.StatusCode != http.StatusBadRequest || !strings.Contains(got.text, `"code":"needs_reason"`) {
			t.Errorf("without a reason: %d, %s", got.StatusCode, got.text)
		}
	}

	post := func(who, reason string) document {
		return s.do(t, http.MethodPost, "/messages/order-1/original", url.Values{"reason": {reason}},
			"Authorization", secrets[who], "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html")
	}
	get(s, "ora", "/messages/order-1").want(t, 200, "Values of this message were replaced by hashes", "Show the original")
	get(s, "vic", "/messages/order-1").want(t, 200, "You may not read originals.")
	get(s, "ora", "/messages/order-1/original").want(t, 200, "Why do you read it?")
	post("ora", "ticket 8").want(t, 200, "recorded, for the reason: ticket 8", "ana@example.com", "C-4711-Secret", "1.50")
	post("hed", "ticket 9").want(t, 200, "You may not read bodies.", "C-4711-Secret")
	post("ora", " ").want(t, http.StatusBadRequest, "needs a reason")
	post("adm", "ticket 8").want(t, http.StatusForbidden, "adm may not read originals")

	without := newSystem(t, settings...)
	for _, path := range []string{message + "?original=true", export + "&original=true"} {
		if got := get(without, "ora", path); got.StatusCode != http.StatusConflict || !strings.Contains(got.text, "redact.original_keys_file") {
			t.Errorf("without keys: %d, %s", got.StatusCode, got.text)
		}
	}

	s.await(t, 9, `event.action: audited and watership.audit.operation: "read originals" and event.outcome: success`)
	reasons := map[string]int{}
	for _, e := range s.events(t, `event.action: audited and watership.audit.operation: "read originals" and event.outcome: success`) {
		reasons[e.Audit.User+" "+e.Audit.Reason]++
		if e.Audit.Object != fingerprint && e.Audit.Object != "action:published" {
			t.Errorf("the event is about %q", e.Audit.Object)
		}
	}
	if reasons["ora ticket 7"] != 6 || reasons["hed ticket 7"] != 1 || reasons["ora ticket 8"] != 1 || reasons["hed ticket 9"] != 1 || len(reasons) != 4 {
		t.Errorf("%v", reasons)
	}
	s.await(t, 5, `event.action: audited and watership.audit.operation: "read originals" and event.outcome: failure and user.name: (vic or adm)`)
	wantNothingPlanted(t, storeFolder, log.String(), s.get(t, "/metrics").text)
}

// wantNothingPlanted checks the files of a folder, and texts.
func wantNothingPlanted(t *testing.T, folder string, texts ...string) {
	t.Helper()
	for _, value := range planted() {
		for _, text := range texts {
			if text == "" || strings.Contains(text, value) {
				t.Errorf("%s is in %q", value, text)
			}
		}
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if at := bytes.Index(content, []byte(value)); at >= 0 {
				t.Errorf("%s has %q in %q", path, value, content[max(0, at-200):min(len(content), at+100)])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Who reads bodies for a reason alone says it once in a browser, on the page that wants to know.
func TestBodiesOfAMessageForAReason(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	s := newSystem(t, "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	secret, err := access.OpenTokenFile(tokens).Create(access.Token{Name: "ada", Role: access.Viewer, Bodies: true, BodyReasons: true})
	if err != nil {
		t.Fatal(err)
	}
	s.publish(t, "order-1", `{"dish": "carrot"}`, nil)
	s.await(t, 1, "action: published")
	bearer := []string{"Authorization", "Bearer " + secret}
	page := s.get(t, "/messages/order-1", bearer...)
	page.want(t, 200, "reading bodies needs a reason", "Go on")
	if !strings.Contains(page.text, `action="/auth/reason"`) || strings.Contains(page.text, "carrot") {
		t.Errorf("%s", page.text)
	}
	s.get(t, "/messages?q=body.json.dish:carrot&since=all", bearer...).want(t, http.StatusBadRequest, "Go on")
	given := s.get(t, "/messages/order-1", append(bearer, access.ReasonHeader, "night shift")...)
	given.want(t, 200, "carrot")
	s.await(t, 1, `event.action: audited and watership.audit.operation: "read bodies" and event.reason: "night shift" and user.name: ada`)
}

// A browser keeps the reason for which a person reads bodies, until that person signs out.
func TestReasonInABrowser(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	s := newSystem(t, "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	secret, err := access.OpenTokenFile(tokens).Create(access.Token{Name: "ada", Role: access.Viewer, Bodies: true, BodyReasons: true})
	if err != nil {
		t.Fatal(err)
	}
	s.publish(t, "order-1", `{"dish": "carrot"}`, nil)
	s.publish(t, "order-2", `{"dish": "turnip"}`, nil)
	s.await(t, 2, "action: published")
	b := newBrowser(t, s)
	signIn := func() {
		b.open(t, "/messages/order-1")
		b.enter(t, "input[name=token]", secret)
		b.click(t, `form[action="/auth/token"] button`)
		b.sees(t, "main", "reading bodies needs a reason")
	}
	signIn()
	b.enter(t, `form[action="/auth/reason"] input[name=reason]`, "night shift")
	b.click(t, `form[action="/auth/reason"] button`)
	b.sees(t, "main", "carrot")
	b.open(t, "/messages/order-2")
	b.sees(t, "main", "turnip")
	s.await(t, 2, `event.action: audited and watership.audit.operation: "read bodies" and event.reason: "night shift" and user.name: ada`)
	b.click(t, `form[action="/auth/logout"] button`)
	b.sees(t, "main", "Signed out")
	signIn()
}
