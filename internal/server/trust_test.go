package server_test

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// precinct is a virtual host whose logins have the rights that docs/permissions.md gives
// them: Watership's, a publisher's, and those of a service that has a queue of its own.
type precinct struct {
	*servertest.Installation
	admin, publisher, service rabbittest.Broker
	invoices, victim          string
	ours                      schemas.Topology
}

func newPrecinct(t *testing.T, admin rabbittest.Broker, handler string) *precinct {
	t.Helper()
	i := servertest.NewInstallation(t, admin)
	p := &precinct{Installation: i, admin: admin, invoices: i.Prefix + "-invoices", victim: i.Prefix + "-victim", ours: schemas.Topology{Prefix: i.Prefix}}
	names := map[string]string{"watership": i.Prefix, "shop": i.Exchange, "orders": i.Queue, "invoices": p.invoices}
	rights := func(user string) rabbittest.Rights { return rabbittest.DocumentedRightsOf(t, user, names) }
	channel := admin.Channel(t)
	if err := channel.ExchangeDeclare(i.Exchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{i.Queue, p.victim} {
		if _, err := channel.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	i.Broker = admin.Login(t, rights("watership"), "monitoring")
	p.publisher, p.service = admin.Login(t, rights("shop-frontend")), admin.Login(t, rights("invoicing"))
	i.OnServers(t, handler, servertest.StoreURL(t))
	p.setDocumentedPolicy(t, names)
	return p
}

// setDocumentedPolicy gives the queue of the service its dead-letter exchange.
func (p *precinct) setDocumentedPolicy(t *testing.T, names map[string]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^rabbitmqctl set_policy --vhost / \S+ '(.*)' '(.*)' --apply-to queues$`).FindSubmatch(page)
	if found == nil {
		t.Fatal("the page sets no policy")
	}
	replace := strings.NewReplacer("watership", names["watership"], "invoices", names["invoices"])
	body := `{"pattern":"` + replace.Replace(string(found[1])) + `","definition":` + replace.Replace(string(found[2])) + `,"apply-to":"queues"}`
	p.admin.Manage(t, http.MethodPut, "/api/policies/"+url.PathEscape(p.admin.VHostName(t))+"/invoices", body)
}

// TestDocumentedRights: with them alone Watership does all that it does, and others
// cannot make it do, or say, what is not theirs.
func TestDocumentedRights(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.NewestOrEachServer(t, func(t *testing.T, broker rabbittest.Broker) {
		service := servertest.NewService(t, func(p servertest.Post, _ int) int {
			if strings.HasPrefix(p.ID, "bad") {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		p := newPrecinct(t, broker.VHost(t), service.URL)
		p.Must(t, "setup")
		p.Serve(t)
		p.serveInvoices(t)
		p.refusesPublisher(t)
		p.refusesService(t)
		p.believesNoMark(t)
		service.Mend()
		p.Must(t, "replay", "action: poisoned", "--yes")
		servertest.Until(t, "no failure to be open", func() bool { return strings.Contains(p.Run(t, "failed").Out, "nothing found") })
		if p.admin.Len(t, p.victim) > 0 {
			t.Errorf("a message reached the queue of others: %+v", p.admin.Take(t, p.victim, 1)[0])
		}
	})
}

// serveInvoices lets the service declare its queue, reject a message, and get it again.
func (p *precinct) serveInvoices(t *testing.T) {
	t.Helper()
	channel := p.service.Channel(t)
	if _, err := channel.QueueDeclare(p.invoices, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(p.invoices, "invoice.#", p.Exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	management, err := rabbit.NewManagement(p.admin.ManagementURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	servertest.Until(t, "the policy to reach the queue", func() bool {
		found, err := management.Queue(t.Context(), p.admin.VHostName(t), p.invoices)
		name, _ := found.DeadLetterExchange()
		return err == nil && name == p.ours.Retry()
	})
	deliveries, err := channel.Consume(p.invoices, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.publishAs(t, p.publisher, p.Exchange, "invoice.sent", amqp.Publishing{MessageId: "invoice"})
	first := rabbittest.Receive(t, deliveries)
	if err := first.Reject(false); err != nil {
		t.Fatal(err)
	}
	again := rabbittest.Receive(t, deliveries)
	if again.MessageId != "invoice" || again.RoutingKey != "invoice.sent" || again.Exchange != p.ours.Return() || again.Ack(false) != nil {
		t.Errorf("it came again as %+v", again)
	}
	p.Eventually(t, "action: retry_scheduled and queue: "+p.invoices, 1)
}

// publishAs publishes and waits for the confirm.
func (p *precinct) publishAs(t *testing.T, as rabbittest.Broker, exchange, key string, m amqp.Publishing) {
	t.Helper()
	if err := publishOn(t, as, exchange, key, m); err != nil {
		t.Fatal(err)
	}
}

func publishOn(t *testing.T, as rabbittest.Broker, exchange, key string, m amqp.Publishing) error {
	t.Helper()
	channel := as.Channel(t)
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirm, err := channel.PublishWithDeferredConfirm(exchange, key, false, false, m)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-closed:
		return err
	case <-confirm.Done():
		if confirm.Acked() {
			return nil
		}
		return rabbittest.Receive(t, closed) // the end of the channel ends its confirms, too
	case <-time.After(rabbittest.Timeout):
		t.Fatalf("no answer to a publish to %q", exchange)
		return nil
	}
}

// refusesPublisher: who may write to a tapped exchange may write nowhere else.
func (p *precinct) refusesPublisher(t *testing.T) {
	t.Helper()
	p.refuses(t, "a publisher", p.publisher)
	for what, try := range map[string]func(*amqp.Channel) error{
		"read a queue":      func(ch *amqp.Channel) error { _, _, err := ch.Get(p.Queue, true); return err },
		"read the exchange": func(ch *amqp.Channel) error { return ch.ExchangeBind(p.ours.Direct(), "k", p.Exchange, false, nil) },
		"declare a queue": func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare("mine", false, true, false, false, nil)
			return err
		},
		"declare an exchange": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("mine", "fanout", false, true, false, false, nil)
		},
	} {
		wantRefused(t, "a publisher may "+what, p.publisher, try)
	}
}

// refusesService: who has a queue may not feed others.
func (p *precinct) refusesService(t *testing.T) {
	t.Helper()
	p.refuses(t, "a service", p.service)
	for what, try := range map[string]func(*amqp.Channel) error{
		"read what is recorded": func(ch *amqp.Channel) error { return ch.QueueBind(p.invoices, "#", p.ours.Events(), false, nil) },
		"read what is tapped":   func(ch *amqp.Channel) error { return ch.QueueBind(p.invoices, "", p.ours.Tap(), false, nil) },
		"publish to the shop":   func(ch *amqp.Channel) error { return publishOn(t, p.service, p.Exchange, "k", amqp.Publishing{}) },
		"name the exchange of dead letters": func(ch *amqp.Channel) error {
			if _, err := ch.QueueDelete(p.invoices, false, false, false); err != nil {
				return err
			}
			_, err := ch.QueueDeclare(p.invoices, true, false, false, false, amqp.Table{"x-dead-letter-exchange": p.ours.Retry()})
			return err
		},
	} {
		wantRefused(t, "a service may "+what, p.service, try)
	}
}

// refuses wants a login to reach nothing that is Watership's or somebody else's.
func (p *precinct) refuses(t *testing.T, who string, as rabbittest.Broker) {
	t.Helper()
	for _, exchange := range append(p.ours.Exchanges(), "", "amq.fanout") {
		for _, key := range []string{p.victim, p.Queue, p.ours.Log(), string(schemas.Discarded)} {
			var refused *amqp.Error
			if err := publishOn(t, as, exchange, key, amqp.Publishing{}); !errors.As(err, &refused) || refused.Code != amqp.AccessRefused {
				t.Errorf("%s may publish to exchange %q: %v", who, exchange, err)
			}
		}
	}
	for _, exchange := range p.ours.Exchanges() {
		wantRefused(t, who+" may feed "+exchange, as, func(ch *amqp.Channel) error {
			return ch.ExchangeBind(exchange, "k", p.Exchange, false, nil)
		})
		wantRefused(t, who+" may delete "+exchange, as, func(ch *amqp.Channel) error { return ch.ExchangeDelete(exchange, false, false) })
	}
	for _, queue := range append(p.ours.Queues(), wire.DelaysOf(p.ours).Queue(100*time.Millisecond), p.Queue, p.victim) {
		wantRefused(t, who+" may feed "+queue, as, func(ch *amqp.Channel) error { return ch.QueueBind(queue, "k", p.Exchange, false, nil) })
		wantRefused(t, who+" may read "+queue, as, func(ch *amqp.Channel) error { _, _, err := ch.Get(queue, true); return err })
		wantRefused(t, who+" may delete "+queue, as, func(ch *amqp.Channel) error { _, err := ch.QueueDelete(queue, false, false, false); return err })
	}
}

func wantRefused(t *testing.T, what string, as rabbittest.Broker, try func(*amqp.Channel) error) {
	t.Helper()
	var refused *amqp.Error
	if err := try(as.Channel(t)); !errors.As(err, &refused) || refused.Code != amqp.AccessRefused {
		t.Errorf("%s: %v", what, err)
	}
}

// believesNoMark: what a publisher says of its message is not taken for what happened to
// another's.
func (p *precinct) believesNoMark(t *testing.T) {
	t.Helper()
	p.publishAs(t, p.publisher, p.Exchange, "k", amqp.Publishing{MessageId: "bad"})
	failure := p.Eventually(t, `action: poisoned and messaging.message.id: bad`, 1)[0]
	benign := schemas.Envelope{Exchange: p.Exchange, RoutingKey: "k", Properties: schemas.Properties{MessageID: "benign", UserID: "admin"}}
	mark := schemas.State{Fingerprint: benign.Fingerprint(), Replay: "job", ReplayOf: failure.EventID, Queue: p.Queue}
	headers := wire.DefaultFrameMax.Wrap(benign, mark).Headers
	p.publishAs(t, p.publisher, p.Exchange, "k", amqp.Publishing{MessageId: "benign", Headers: headers})
	p.Eventually(t, "action: handled and messaging.message.id: benign", 1)
	for _, e := range p.Eventually(t, "messaging.message.id: benign", 2) {
		if e.Replay != "" || e.ReplayOf != "" || e.Envelope.Properties.UserID != "" || strings.HasSuffix(e.EventID, ":job") {
			t.Errorf("a mark counts that a publisher wrote: %+v, user %q", e.State, e.Envelope.Properties.UserID)
		}
	}
	if r := p.Run(t, "failed"); !strings.Contains(r.Out, "1 failure") {
		t.Errorf("a failure is off the list: %+v", r)
	}
}
