package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// pictures is the folder with the pictures of the README.
const pictures = "../../docs/images"

// The pictures of the README are those of this console: the sum of its pages and styles is
// kept with them.
func TestPicturesAreOfThisConsole(t *testing.T) {
	sum := sumOfPages(t)
	file := filepath.Join(pictures, "console.sum")
	if os.Getenv("WATERSHIP_TEST_UPDATE") != "" {
		takePictures(t)
		if err := os.WriteFile(file, []byte(sum+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(kept)) != sum {
		t.Errorf("the console has changed since its pictures were taken (%v): WATERSHIP_TEST_UPDATE=1 go test ./internal/console -run Pictures", err)
	}
}

func sumOfPages(t *testing.T) string {
	t.Helper()
	digest := sha256.New()
	for _, folder := range []string{"static", "templates"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			fmt.Fprintln(digest, path, len(content))
			digest.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// takePictures shows a shop whose payment provider was away for an hour.
func takePictures(t *testing.T) {
	t.Helper()
	s := newSystem(t)
	s.keepHistory(t, time.Now())
	b := newBrowser(t, s)
	b.look(t, 1280, "light")
	group := s.get(t, "/failures?since=all").link(t, "/failures/groups/")
	for name, path := range map[string]string{"overview": "/?since=6h&wait=1", "message": "/messages/order-1042", "group": group} {
		b.open(t, path)
		b.awaits(t, `document.querySelector("[data-late]") === null`)
		var image []byte
		b.do(t, "taking a picture", chromedp.CaptureScreenshot(&image))
		if err := os.WriteFile(filepath.Join(pictures, "console-"+name+".png"), image, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// keepHistory stores the events of six hours.
func (s served) keepHistory(t *testing.T, now time.Time) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var events []schemas.Event
	begin := now.Add(-6 * time.Hour).Truncate(time.Minute)
	for n := range 1800 {
		at := begin.Add(time.Duration(n)*12*time.Second + time.Duration(random.IntN(9000))*time.Millisecond)
		id := fmt.Sprint("order-", n)
		add := func(action schemas.Action, after time.Duration, change func(e *schemas.Event)) {
			e := s.newEvent(id, len(events)+1, action, at.Add(after))
			change(&e)
			events = append(events, e)
		}
		add(schemas.Published, 0, func(*schemas.Event) {})
		away := n > 1000 && n < 1300 && (random.IntN(3) > 0 || n == 1042)
		if !away {
			add(schemas.Handled, time.Duration(8+random.IntN(30))*time.Millisecond, atQueue(1, ""))
			continue
		}
		const failed = "http://payments:8080 answered 503 Service Unavailable"
		add(schemas.RetryScheduled, 12*time.Millisecond, atQueue(1, failed))
		add(schemas.RetryScheduled, 1*time.Second+31*time.Millisecond, atQueue(2, failed))
		if random.IntN(4) == 0 || n == 1042 {
			add(schemas.Poisoned, 5*time.Second+52*time.Millisecond, atQueue(3, failed))
		} else {
			add(schemas.Handled, 5*time.Second+61*time.Millisecond, atQueue(3, ""))
		}
	}
	store, err := s.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	documents := make([]schemas.Document, len(events))
	for i, e := range events {
		documents[i] = schemas.DocumentFormat{}.Document(e)
	}
	if _, err := store.Create(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
	s.await(t, int64(len(events)), "action: *")
}

func (s served) newEvent(id string, n int, action schemas.Action, at time.Time) schemas.Event {
	e := schemas.Event{
		Action: action, TimeSource: wire.TimeOfBroker, Sequence: at.UnixMicro() + int64(n), Ingested: at.Add(200 * time.Millisecond), Source: "rabbit@shop//", VHost: "/",
		Envelope: schemas.Envelope{
			Exchange: "shop", RoutingKey: "order.placed", Headers: amqp.Table{"tenant": "acme", "priority": int32(3)},
			Properties: schemas.Properties{MessageID: id, ContentType: "application/json", DeliveryMode: amqp.Persistent, AppID: "web"},
			Body:       []byte(`{"order": "` + id + `", "customer": "hazel", "items": [{"sku": "lantern", "count": 2}, {"sku": "violin", "count": 1}], "total": 431.9}`),
		},
	}
	e.EventID, e.Time, e.BodySize = fmt.Sprint("picture:", n), at, len(e.Envelope.Body)
	e.Fingerprint = e.Envelope.Fingerprint()
	return e
}

// atQueue makes an event of the queue orders; failed is the error, "" for none.
func atQueue(attempt int, failed string) func(e *schemas.Event) {
	return func(e *schemas.Event) {
		e.Queue, e.Attempt, e.Duration = "orders", attempt, time.Duration(5+attempt)*time.Millisecond
		e.Message = "instance-" + e.Envelope.Properties.MessageID
		if failed != "" {
			e.Failure = schemas.Failure{Type: "*webhook.StatusError", Message: failed, Class: "default"}
			if e.Action == schemas.RetryScheduled {
				e.Delay = time.Duration(attempt*attempt) * time.Second
			}
		}
	}
}
