package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// TestMain removes the binary after the tests: it has 50 MB.
func TestMain(m *testing.M) { os.Exit(withBuilds(m)) }

func withBuilds(m *testing.M) int {
	var err error
	if builds, err = os.MkdirTemp("", "watership"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(builds)
	return m.Run()
}

// builds is the folder of the binary.
var builds string

// binary is the command under test, built once.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(builds, "watership")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/watership").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, nil
})

// installation is one Watership on real servers, with names of its own.
type installation struct {
	broker   rabbittest.Broker
	binary   string
	config   string
	prefix   string
	stream   string
	store    string // store.url
	exchange string
	queue    string
	listen   string
	environ  []string // of the commands; nil: ours
	server   []string // environment of the commands that go through a server; nil: none do
}

// storeURL is the Elasticsearch of the tests.
func storeURL(t *testing.T) string {
	t.Helper()
	store := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if store == "" {
		missing(t, `no store: WATERSHIP_TEST_STORE_URL is not set (scripts/services up; eval "$(scripts/services env)")`)
	}
	return store
}

func missing(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// settingsOf is the configuration file of an installation, but for its servers.
const settingsOf = `
topology: {prefix: %s}
source: test
tap: {exchanges: [{name: %s, type: topic}]}
routes:
  - queue: %s
    bind: [{exchange: %s, key: "#"}]
    handler: {http: {url: %q, timeout: 10s}}
    concurrency: 32
retry: {policies: {default: {delays: [100ms, 300ms]}}}
index: {batch: {wait: 50ms}}
http: {listen: %q}
`

func install(t *testing.T, broker rabbittest.Broker, handler string) *installation {
	t.Helper()
	return around(t, broker).install(t, handler)
}

// onServers writes the configuration for servers that run already.
func (i *installation) onServers(t *testing.T, handler, store string) {
	t.Helper()
	i.store = store
	i.write(t, handler, fmt.Sprintf("amqp: {url: %q, management_url: %q}\nstore: {url: %q, stream: %s}",
		i.broker.URL, i.broker.ManagementURL, store, i.stream))
}

func newInstallation(t *testing.T, broker rabbittest.Broker) *installation {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ToLower("t" + rand.Text()[:8])
	return &installation{
		broker: broker, binary: path, config: filepath.Join(t.TempDir(), "watership.yaml"),
		prefix: name, stream: name, exchange: name + "-github", queue: name + "-ci", listen: freeAddress(t),
	}
}

func (i *installation) write(t *testing.T, handler, servers string) {
	t.Helper()
	text := servers + fmt.Sprintf(settingsOf, i.prefix, i.exchange, i.queue, i.exchange, handler, i.listen)
	if err := os.WriteFile(i.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// remove deletes what the installation declared.
func (i *installation) remove(t *testing.T) {
	conn, err := amqp.Dial(i.broker.URL)
	if err != nil {
		t.Logf("queues of %s stay: %v", i.prefix, err)
		return
	}
	defer conn.Close()
	management, err := rabbit.NewManagement(i.broker.ManagementURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := management.Queues(context.Background(), "/")
	if err != nil {
		t.Logf("queues of %s stay: %v", i.prefix, err)
	}
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range queues {
		if strings.HasPrefix(queue.Name, i.prefix) {
			_, _ = channel.QueueDelete(queue.Name, false, false, false)
		}
	}
	for _, exchange := range append(schemas.Topology{Prefix: i.prefix}.Exchanges(), i.exchange) {
		_ = channel.ExchangeDelete(exchange, false, false)
	}
}

// freeAddress returns an address on which nothing listens. Its port is random, below those
// that the kernel gives to connections and to listeners without a port, so that no other test
// gets it before it is used.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+mathrand.IntN(20_000))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// result is the output of a command and its exit code.
type result struct {
	out, err string
	code     int
}

func (i *installation) run(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, i.binary, append(args, "--config", i.config)...)
	cmd.Env = i.environ
	if i.server != nil && !slices.Contains([]string{"setup", "quarantine", "import"}, args[0]) {
		cmd.Args, cmd.Env = append([]string{i.binary}, args...), i.server
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("watership %s did not end: %s%s", strings.Join(args, " "), out.String(), errs.String())
	}
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// must runs a command that has to succeed, and returns its output.
func (i *installation) must(t *testing.T, args ...string) string {
	t.Helper()
	r := i.run(t, args...)
	if r.code != 0 {
		t.Fatalf("watership %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// find runs a search until no index is missing that was created just now.
func (i *installation) find(t *testing.T, query string, args ...string) string {
	t.Helper()
	var r result
	until(t, "the store to search "+query, func() bool {
		r = i.run(t, append([]string{"search", query}, args...)...)
		return r.code == 0 || !strings.Contains(r.err, "missing shards")
	})
	if r.code != 0 {
		t.Fatalf("search %s: %s", query, r.err)
	}
	return r.out
}

// search returns the documents that a query finds.
func (i *installation) search(t *testing.T, query string) []schemas.Event {
	t.Helper()
	var events []schemas.Event
	lines := bufio.NewScanner(strings.NewReader(i.find(t, query, "--limit", "0", "-o", "ndjson")))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		event, err := schemas.ParseDocument(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

// eventually waits until a query finds so many events, and reads them once.
func (i *installation) eventually(t *testing.T, query string, want int) []schemas.Event {
	t.Helper()
	until(t, fmt.Sprintf("%d events of %s", want, query), func() bool {
		n, err := strconv.Atoi(strings.TrimSpace(i.find(t, query, "--count")))
		if err != nil {
			t.Fatal(err)
		}
		return n >= want
	})
	found := i.search(t, query)
	if len(found) != want {
		t.Fatalf("query %s finds %d events, want %d", query, len(found), want)
	}
	return found
}

// until waits for a condition, and fails long after it should have come true.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// process is a running serve.
type process struct {
	cmd  *exec.Cmd
	logs *sink
	done chan error // has how it ended, and is closed
}

// serve starts the pipeline and waits until it is ready.
func (i *installation) serve(t *testing.T) *process {
	t.Helper()
	p := i.start(t)
	until(t, "serve to be ready", func() bool {
		select {
		case err := <-p.done:
			t.Fatalf("serve ended: %v\n%s", err, p.logs.String())
		default:
		}
		response, err := http.Get("http://" + i.listen + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return p
}

func (i *installation) start(t *testing.T) *process {
	t.Helper()
	p := &process{cmd: exec.Command(i.binary, "serve", "--config", i.config), logs: &sink{}, done: make(chan error, 1)}
	p.cmd.Stderr, p.cmd.Env = p.logs, i.environ
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.done <- p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		for range p.done { // until nothing writes to its log
		}
		if t.Failed() {
			t.Logf("log of serve:\n%s", tail(p.logs.String(), 8<<10))
		}
	})
	return p
}

func tail(text string, size int) string { return text[max(0, len(text)-size):] }

// stop ends serve as an operator does, and wants it to end well.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.done:
		if err != nil {
			t.Fatalf("serve ended with %v\n%s", err, p.logs.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("serve did not end on SIGTERM")
	}
}

// kill ends serve as a crash does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
}

// publisher returns a publisher that does not give up while a broker is away.
func (i *installation) publisher(t *testing.T) *rabbit.Publisher {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: i.broker.URL, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	t.Cleanup(func() { _ = publisher.Close() })
	return publisher
}

// post is one request that the service of a test got.
type post struct {
	id      string
	attempt string
	body    []byte
	header  http.Header
}

// service is the HTTP service behind a route.
type service struct {
	url string

	mu     sync.Mutex // guards what follows
	posts  map[string][]post
	answer func(p post, before int) int // status for a post, of which there were so many of this message before
}

func newService(t *testing.T, answer func(p post, before int) int) *service {
	t.Helper()
	s := &service{posts: map[string][]post{}, answer: answer}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = (&url.URL{Scheme: "http", Host: listener.Addr().String(), Path: "/"}).String()
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return
	}
	p := post{r.Header.Get("Watership-Message-Id"), r.Header.Get("Watership-Attempt"), body.Bytes(), r.Header}
	s.mu.Lock()
	status := s.answer(p, len(s.posts[p.id]))
	s.posts[p.id] = append(s.posts[p.id], p)
	s.mu.Unlock()
	w.WriteHeader(status)
	if status != http.StatusOK {
		fmt.Fprint(w, "the runner has melted")
	}
}

// mend lets the service succeed from now on, and forgets what it got.
func (s *service) mend() { s.answerAll(http.StatusOK) }

// answerAll lets the service answer with a status from now on, and forgets what it got.
func (s *service) answerAll(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts = map[string][]post{}
	s.answer = func(post, int) int { return status }
}

func (s *service) got() map[string][]post {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := make(map[string][]post, len(s.posts))
	for id, posts := range s.posts {
		copied[id] = append([]post(nil), posts...)
	}
	return copied
}

// githubEvent is a webhook that GitHub sent.
type githubEvent struct {
	event, action string
	body          json.RawMessage
}

func webhooks(t *testing.T) []githubEvent {
	t.Helper()
	path := os.Getenv("WATERSHIP_TEST_WEBHOOKS")
	if path == "" {
		missing(t, `no webhooks: WATERSHIP_TEST_WEBHOOKS is not set (eval "$(scripts/fixtures env)")`)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var index []struct {
		Name     string
		Examples []json.RawMessage
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	var list []githubEvent
	for _, entry := range index {
		for _, body := range entry.Examples {
			var content struct{ Action string }
			_ = json.Unmarshal(body, &content) // some have no action, or no text
			list = append(list, githubEvent{entry.Name, content.Action, body})
		}
	}
	return list
}
