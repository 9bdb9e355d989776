package doctor

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/wording"
)

func (d *doctor) checkBroker(ctx context.Context) {
	conn, err := d.Connect(ctx)
	if err != nil {
		d.report(BrokerUnreachable, Error, err.Error(), d.brokerRemedy(err))
		return
	}
	d.conn = conn
	d.reportOK(BrokerCheck, "answers at %s", d.Settings.AMQP.URL)
	d.checkPermissions(ctx)
}

var errBlocked = errors.New("the broker is short of memory or disk and blocks publishers")

// checkPermissions stops waiting if the broker blocks all publishers.
func (d *doctor) checkPermissions(ctx context.Context) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if d.conn.AwaitBlocked(ctx) == nil {
			stop(errBlocked)
		}
	}()
	err := d.tryPermissions(ctx)
	switch {
	case err == nil:
		d.reportOK(PermissionsCheck, "user %s may configure, write and read %s.*", d.Login, prefixOf(d.Topology.Log()))
	case errors.Is(context.Cause(ctx), errBlocked):
		d.report(BrokerBlocked, Error, errBlocked.Error(),
			"let consumers work its queues off, or give it more memory or disk: rabbitmqctl status names the alarm")
	default:
		d.report(PermissionMissing, Error, fmt.Sprintf("user %s: %v", d.Login, err),
			d.permissionsCommand()+" (docs/permissions.md)")
	}
}

func (c Config) brokerRemedy(err error) string {
	var refused *amqp091.Error
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &noTLS):
		return "the server does not speak TLS at this port: correct the port in amqp.url (RabbitMQ's is 5671), or use amqp://"
	case !errors.As(err, &refused):
	case refused.Code == amqp091.FrameError || refused.Code == amqp091.SyntaxError:
		return "the server does not speak AMQP at this port: correct the port in amqp.url (RabbitMQ's is 5672)"
	case refused.Code == amqp091.AccessRefused:
		return "correct the user and the password in amqp.url, or the file amqp.password_file"
	case refused.Code == amqp091.NotAllowed:
		return fmt.Sprintf("rabbitmqctl add_vhost %s && %s, or correct the vhost in amqp.url", wording.Quoted(c.VHost), c.permissionsCommand())
	}
	return "start RabbitMQ, or set amqp.url"
}

// tryPermissions declares an exchange and a queue, uses them as serve uses Watership's,
// and deletes them.
func (d *doctor) tryPermissions(ctx context.Context) error {
	name := prefixOf(d.Topology.Log()) + ".doctor." + rand.Text()[:8]
	err := d.conn.Do(ctx, func(ch *amqp091.Channel) error { return tryQueue(ch, name) })
	if err != nil { // the queue goes with the connection, and with it an exchange that it is bound to
		_ = d.conn.Do(ctx, func(ch *amqp091.Channel) error { return ch.ExchangeDelete(name, false, false) })
	}
	return err
}

func tryQueue(ch *amqp091.Channel, name string) error {
	if err := ch.ExchangeDeclare(name, amqp091.ExchangeDirect, false, true, false, false, nil); err != nil {
		return fmt.Errorf("declaring an exchange: %w", err)
	}
	if _, err := ch.QueueDeclare(name, false, true, true, false, nil); err != nil {
		return fmt.Errorf("declaring a queue: %w", err)
	}
	if err := ch.QueueBind(name, name, name, false, nil); err != nil {
		return fmt.Errorf("binding a queue: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	confirmed, err := ch.PublishWithDeferredConfirm(name, name, true, false, amqp091.Publishing{})
	if err != nil {
		return fmt.Errorf("publishing to a queue: %w", err)
	}
	confirmed.Wait()
	if _, _, err := ch.Get(name, true); err != nil {
		return fmt.Errorf("reading a queue: %w", err)
	}
	_, err = ch.QueueDelete(name, false, false, false) // and with it the exchange
	return err
}

const oldestBroker = "3.10"

func (d *doctor) checkManagement(ctx context.Context) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	management, err := d.Management()
	if err == nil {
		err = d.readTopology(ctx, management)
	}
	if err != nil {
		verdict := Warning
		if isOtherCluster(err) {
			verdict = Error // changes by it, such as of a policy, do not apply
		}
		d.report(ManagementUnusable, verdict, err.Error(), d.managementRemedy(err))
		return
	}
	d.management = management
	d.reportOK(ManagementCheck, "answers at %s", d.Settings.AMQP.ManagementURL)
	if isOlder(d.version, oldestBroker) {
		d.report(BrokerOutdated, Warning, "RabbitMQ "+d.version, "Watership is tested with "+oldestBroker+" and newer: upgrade")
	} else {
		d.reportOK(VersionCheck, "RabbitMQ %s", d.version)
	}
	for _, address := range d.Settings.AMQP.ManagementURL.RevealAll() {
		if clock, err := httpClock(ctx, d.Client, address); err == nil {
			d.checkClock("the broker", clock)
			return
		}
	}
}

func isOtherCluster(err error) bool {
	var other *rabbit.OtherClusterError
	return errors.As(err, &other)
}

func (c Config) managementRemedy(err error) string {
	address := c.Settings.AMQP.ManagementURL.Reveal()
	parsed, parseErr := url.Parse(address)
	remedy := "set amqp.management_url, and give its user the tag monitoring"
	switch {
	case address == "" || parseErr != nil:
	case isOtherCluster(err):
		return "set amqp.management_url to the API of the broker of amqp.url"
	case errors.Is(err, rabbit.ErrNotFound):
		remedy = fmt.Sprintf("set amqp.management_url to the API of the broker of amqp.url: the one that answers has no vhost %s", wording.Quoted(c.VHost))
	case parsed.User == nil:
		remedy = "amqp.management_url has no login: set it to http://USER:PASSWORD@HOST:PORT with a user that has the tag monitoring"
	case address == rabbit.ManagementURL(c.Settings.AMQP.URL.Reveal()):
		remedy = "amqp.management_url is derived from amqp.url: set it, if the API is at another port; else rabbitmq-plugins enable rabbitmq_management, and give the user of amqp.url the tag monitoring"
	}
	return remedy + "; without it the routes of a replay to exchanges cannot be checked, and doctor cannot look at queues"
}

// readTopology reads the objects that the management API lists. They have to be of the broker of the connection, if
// there is one.
func (b *broker) readTopology(ctx context.Context, management *rabbit.Management) error {
	overview, err := management.Overview(ctx)
	if err != nil {
		return err
	}
	b.version, b.types = overview.Version, overview.ExchangeTypes
	if b.conn != nil {
		if err := overview.CheckCluster(ctx, b.conn); err != nil {
			return err
		}
	}
	queues, err := management.Queues(ctx, b.VHost)
	if err != nil {
		return err
	}
	b.queues = map[string]rabbit.Queue{}
	for _, queue := range queues {
		b.queues[queue.Name] = queue
	}
	b.policies, err = management.Policies(ctx, b.VHost)
	if err != nil {
		return err
	}
	operators, err := management.OperatorPolicies(ctx, b.VHost)
	if err == nil {
		b.applyPolicies(operators)
	}
	return err
}

// isOlder compares versions by their first two numbers.
func isOlder(version, minimum string) bool {
	a, b := strings.Split(version, "."), strings.Split(minimum, ".")
	for i := range 2 {
		x, y := 0, 0
		if i < len(a) {
			x, _ = strconv.Atoi(a[i])
		}
		if i < len(b) {
			y, _ = strconv.Atoi(b[i])
		}
		if x != y {
			return x < y
		}
	}
	return false
}

const clockTolerance = 5 * time.Second

// checkClock compares the clock of a server with this machine's. Searches go by the time
// of an event, which the first server or process that saw the message wrote.
func (d *doctor) checkClock(server string, clock time.Time) {
	difference := time.Until(clock).Round(time.Second)
	if difference.Abs() > clockTolerance {
		d.report(ClockDiffers, Warning, fmt.Sprintf("the clock of %s differs from this machine's by %s", server, difference),
			"run NTP on both: events are searched by time")
		return
	}
	d.reportOK(ClockCheck, "the clock of %s agrees with this machine's", server)
}

// checkServe asks /readyz of a serve with this configuration on this machine.
func (d *doctor) checkServe(ctx context.Context) {
	if d.Settings.HTTP.Listen == "" {
		return
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	answer, err := d.Ready(ctx)
	switch {
	case err == nil:
		d.reportOK(ServeCheck, "is ready at %s", d.Settings.HTTP.Listen)
		d.checkLines(answer)
	case answer != "":
		d.report(ServeNotReady, Error, "is not ready: "+answer, "see in its log")
	}
}

const (
	// NotReloaded begins the line of /readyz about a reload that failed.
	NotReloaded = "the configuration was not reloaded: "

	// StandsBy begins the line of /readyz about a route that waits for another process.
	StandsBy = "this process stands by for the route of queue "
)

// checkLines reports the lines of /readyz after the first.
func (d *doctor) checkLines(answer string) {
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, NotReloaded):
			d.report(ReloadFailed, Warning, line, "correct it and reload: the earlier one is in effect")
		case strings.HasPrefix(line, StandsBy):
			d.reportOK(RoutesCheck, "%s", line)
		}
	}
}

// httpClock returns the Date of an HTTP response with any status.
func httpClock(ctx context.Context, client *http.Client, url string) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return time.Time{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return time.Time{}, err
	}
	_ = response.Body.Close()
	return http.ParseTime(response.Header.Get("Date"))
}
