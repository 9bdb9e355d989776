package cli

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/system/secret"
)

// documented gives the JSON block of the page on security: the role at Elasticsearch.
func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("docs/permissions.md gives no role at Elasticsearch")
	}
	return block[1]
}

// secured is an Elasticsearch with security on, whose roles are in a file, since
// the server of the tests cannot keep them otherwise. Its users admin and watership have
// the password of the file.
type secured struct {
	url, dir string
	client   *http.Client
}

// securedInUse is locked by the test that has the server's roles: they are in one file.
var securedInUse sync.Mutex

func newSecured(t *testing.T) secured {
	t.Helper()
	securedInUse.Lock()
	t.Cleanup(securedInUse.Unlock)
	s := secured{url: os.Getenv("WATERSHIP_TEST_SECURE_STORE_URL"), dir: os.Getenv("WATERSHIP_TEST_SECURE_STORE_DIR")}
	if s.url == "" || s.dir == "" {
		t.Skip("no store with security: WATERSHIP_TEST_SECURE_STORE_URL is not set")
	}
	conf, err := secret.TLS("store.tls", s.tls())
	if err != nil {
		t.Fatal(err)
	}
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	return s
}

func (s secured) file(name string) string { return filepath.Join(s.dir, name) }
func (s secured) password() string        { return s.file("password") }
func (s secured) tls() config.TLS {
	return config.TLS{CA: s.file("ca.crt"), Cert: s.file("client.crt"), Key: s.file("client.key")}
}

// role gives the user watership a role, and waits until it has it.
func (s secured) role(t *testing.T, role, mark string) {
	t.Helper()
	var compact map[string]any
	if err := json.Unmarshal([]byte(role), &compact); err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(compact)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir, "roles.yml")
	if err := os.WriteFile(file, append([]byte("watership: "), line...), 0o644); err != nil { //nolint:gosec // the server's
		t.Fatal(err)
	}
	servertest.Until(t, "the role to hold", func() bool { return strings.Contains(s.ask(t, "/_security/user/_privileges"), mark) })
}

func (s secured) ask(t *testing.T, path string) string {
	t.Helper()
	return s.as(t, "watership", http.MethodGet, path, "")
}

// as asks the server itself, with any user.
func (s secured) as(t *testing.T, user, method, path, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.SetBasicAuth(user, s.secret(t))
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return string(text)
}

// secret is the password of every user.
func (s secured) secret(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.password())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// restricted makes a vhost and a login that may do in it what is documented.
func restricted(t *testing.T, broker rabbittest.Broker, i *servertest.Installation) (login string) {
	t.Helper()
	send := func(method, path, body string) {
		t.Helper()
		broker.Manage(t, method, "/api/"+path, body)
	}
	login = i.Prefix
	send(http.MethodPut, "vhosts/"+login, "{}")
	t.Cleanup(func() { send(http.MethodDelete, "vhosts/"+login, "") })
	send(http.MethodPut, "users/"+login, `{"password":"p@ss/word","tags":"monitoring"}`)
	t.Cleanup(func() { send(http.MethodDelete, "users/"+login, "") })
	send(http.MethodPut, "permissions/"+login+"/guest", `{"configure":".*","write":".*","read":".*"}`)
	permissions, err := json.Marshal(rabbittest.DocumentedRights(t, i.Prefix, i.Exchange, i.Queue))
	if err != nil {
		t.Fatal(err)
	}
	send(http.MethodPut, "permissions/"+login+"/"+login, string(permissions))
	return login
}

// Everything that a user does is possible with what the documentation gives to
// Watership at both servers, and with passwords from files.
func TestDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel() // most of it is waiting
	store := newSecured(t)
	broker := rabbittest.NewestServer(t)
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusInternalServerError })
	i := servertest.Install(t, broker, service.URL)
	login := restricted(t, broker, i)
	store.role(t, strings.ReplaceAll(documented(t), "watership-messages", i.Stream), i.Stream)
	owner, err := url.Parse(broker.URL)
	if err != nil {
		t.Fatal(err)
	}
	owner.Path = "/" + login
	i.Broker.URL = owner.String()
	owners, err := amqp.Dial(owner.String())
	if err != nil {
		t.Fatal(err)
	}
	defer owners.Close()
	channel, err := owners.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.ExchangeDeclare(i.Exchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare(i.Queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	password := servertest.WriteFile(t, "amqp-password", "p@ss/word\n")
	restrictedURL := url.URL{Scheme: "amqp", User: url.User(login), Host: owner.Host, Path: "/" + login}
	management, _ := url.Parse(broker.ManagementURL)
	management.User = url.User(login)
	i.Rewrite(t, fmt.Sprintf("amqp: {url: %q, management_url: %q}", broker.URL, broker.ManagementURL),
		fmt.Sprintf("amqp: {url: %q, management_url: %q, password_file: %q}", restrictedURL.String(), management.String(), password))
	i.Rewrite(t, fmt.Sprintf("store: {url: %q,", servertest.StoreURL(t)),
		fmt.Sprintf("store: {url: %q, username: watership, password_file: %q, tls: {ca: %q, cert: %q, key: %q},",
			store.url, store.password(), store.tls().CA, store.tls().Cert, store.tls().Key))

	i.Must(t, "setup")
	serving := i.Serve(t)
	if err := channel.Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: "m-1", Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	i.Eventually(t, "action: poisoned", 1)
	if out := i.Must(t, "failed"); !strings.Contains(out, "1 failure in 1 group") {
		t.Errorf("failed says %s", out)
	}
	service.Mend()
	if out := i.Must(t, "replay", "action: poisoned", "--to-failed-queue", "--yes"); !strings.Contains(out, "sent 1 of 1") {
		t.Errorf("replay says %s", out)
	}
	i.Eventually(t, "action: handled", 1)
	if out := i.Must(t, "jobs", "list"); !strings.Contains(out, "1 of 1") && !strings.Contains(out, "done") {
		t.Errorf("jobs says %s", out)
	}
	i.Must(t, "show", "m-1")
	list, code := i.Findings(t)
	if code != exitOK {
		t.Errorf("doctor: %+v", list)
	}
	serving.Stop(t)
	if status := i.Run(t, "setup"); status.Code != exitOK { // with streams that are there
		t.Errorf("setup again: %s", status.Err)
	}

	wrongPassword := servertest.WriteFile(t, "wrong", "another")
	// What is missing is named on one line.
	narrow := strings.ReplaceAll(strings.ReplaceAll(documented(t), "watership-messages", i.Stream), `"manage_index_templates"`, `"manage_ilm"`)
	store.role(t, narrow, "manage_ilm")
	got := i.Run(t, "setup")
	if got.Code != exitFailed || strings.Count(got.Err, "watership: ") != 1 || !strings.Contains(got.Err, "granted by the cluster privileges [manage_index_templates") {
		t.Errorf("setup without the right to templates: %+v", got)
	}
	for change, want := range map[string]string{
		"--store-tls-ca=" + store.tls().Cert:     "certificate signed by unknown authority",
		"--store-password-file=" + wrongPassword: "401 Unauthorized",
	} {
		if got := i.Run(t, "search", "*", change); got.Code != exitFailed || strings.Count(got.Err, "watership: ") != 1 || !strings.HasSuffix(got.Err, "watership help troubleshooting has causes\n") || !strings.Contains(got.Err, want) {
			t.Errorf("search %s: %+v", change, got)
		}
	}
	i.Rewrite(t, store.password(), "/nowhere/password")
	if got := i.Run(t, "search", "*"); got.Code != exitUsage || got.Err != "watership: store.password_file: /nowhere/password: no such file or directory\n" {
		t.Errorf("without the password's file: %+v", got)
	}
}

// The Elasticsearch of the tests cannot make API keys, so a server before it asks for
// one, over TLS. Ours is in a file, and no output shows it.
func TestAPIKey(t *testing.T) {
	const key = "VnVhQ2ZHY0JDZGJrUW0tZTVhT3g6dWkybHAyYXhUTm1zeWFrdzl0dk5udw=="
	target, err := url.Parse(servertest.StoreURL(t))
	if err != nil {
		t.Fatal(err)
	}
	real := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " "); !strings.EqualFold(scheme, "ApiKey") || given != key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		real.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	authority := servertest.WriteFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})))
	i := servertest.Install(t, rabbittest.NewestServer(t), servertest.NewService(t, func(servertest.Post, int) int { return 200 }).URL)
	i.Rewrite(t, fmt.Sprintf("store: {url: %q,", servertest.StoreURL(t)),
		fmt.Sprintf("store: {url: %q, api_key_file: %q, tls: {ca: %q},", front.URL, servertest.WriteFile(t, "key", key+"\n"), authority))
	i.Must(t, "setup")
	i.Serve(t)
	i.Must(t, "publish", "--exchange", i.Exchange, "--key", "k", "--message-id", "m-1")
	i.Eventually(t, "action: handled", 1)
	got := i.Run(t, "search", "*", "--store-api-key-file="+servertest.WriteFile(t, "another", "c2VjcmV0"))
	if got.Code != exitFailed || !strings.Contains(got.Err, "401 Unauthorized") || strings.Contains(got.Err, "c2VjcmV0") {
		t.Errorf("with another key: %+v", got)
	}
}
