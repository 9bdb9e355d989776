// Package doctor checks a RabbitMQ system and a store for all that Watership needs, and
// says what to do. It changes nothing and prints nothing.
package doctor

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system/routeconfig"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// Config describes the system to check and how to connect to its parts.
type Config struct {
	Settings  config.Config
	Topology  schemas.Topology
	Pipeline  pipeline.Config // whose routes and queues are checked
	Login     string          // at RabbitMQ
	VHost     string
	StateKeys schemas.StateKeys
	Client    *http.Client  // for RabbitMQ's HTTP API
	StoreKind string        // in findings
	Timeout   time.Duration // of the requests of one check
	Embedded  bool          // the broker is the one of a running dev or serve

	Files      func() error // opens the files that serve opens; each error that errors.Join joined is a finding
	Connect    func(ctx context.Context) (*rabbit.Connection, error)
	Management func() (*rabbit.Management, error)
	OpenStore  func(ctx context.Context) (Store, error)
	Ready      func(ctx context.Context) (answer string, err error) // of serve
	Routes     func(ctx context.Context) ([]routes.RouteState, error)

	Subscriptions func(ctx context.Context) (*subscription.Subscriptions, error)
}

// Store reads the state of a store.
type Store interface {
	waiting.Store
	Check(ctx context.Context) error
	Clock(ctx context.Context) (time.Time, error)
	eventstore.RecordReader
}

// Verdict is the result of a check.
type Verdict string

// Verdicts.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning"
	Error   Verdict = "error"
)

// Finding is the result of one check.
type Finding struct {
	Check   string     `json:"check"`
	Verdict Verdict    `json:"verdict"`
	Detail  string     `json:"detail"`
	Since   *time.Time `json:"since,omitempty"` // when it began; nil: not known
	Remedy  string     `json:"remedy,omitempty"`
}

// doctor collects findings. It skips a check that needs the result of one that failed.
type doctor struct {
	Config
	findings []Finding

	conn       *rabbit.Connection // nil: the broker cannot be reached
	management *rabbit.Management // nil: the management API cannot be asked
	version    string             // of the broker; "" where it is not known
	queues     map[string]rabbit.Queue
	policies   []rabbit.Policy
	store      Store // nil: the store cannot be reached
}

func (d *doctor) report(check string, v Verdict, detail, remedy string) {
	d.findings = append(d.findings, Finding{Check: check, Verdict: v, Detail: detail, Remedy: remedy})
}

func (d *doctor) reportOK(check, format string, args ...any) {
	d.report(check, OK, fmt.Sprintf(format, args...), "")
}

// Run runs every check and returns their findings.
func Run(ctx context.Context, cfg Config) []Finding {
	d := &doctor{Config: cfg}
	d.runChecks(ctx)
	return d.findings
}

// Limits finds the policies and delivery limits by which the broker drops messages of
// queues of Watership and of routes. Without the management API it finds none.
func Limits(ctx context.Context, cfg Config) []Finding {
	d := &doctor{Config: cfg}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	management, err := d.Management()
	if err != nil || d.readTopology(ctx, management) != nil {
		return nil
	}
	d.checkOwnQueues()
	d.checkRouteQueues()
	return slices.DeleteFunc(d.findings, func(f Finding) bool { return f.Verdict != Error })
}

// bounded returns a context with the time-out for the requests of one check.
func (d *doctor) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.Timeout, fmt.Errorf("no answer within %s", d.Timeout))
}

func (d *doctor) runChecks(ctx context.Context) {
	d.findings = append(d.findings, Exposures(d.Settings)...)
	d.checkFiles()
	for _, warning := range routeconfig.Ineffective(d.Settings) {
		d.report("routes", Warning, warning, "")
	}
	d.checkBroker(ctx)
	d.checkManagement(ctx)
	d.checkServe(ctx)
	d.checkStore(ctx)
	d.checkRouteStates(ctx)
	d.checkSubscriptions(ctx)
	d.checkQuarantine(ctx)
	d.checkWatermarks(ctx)
	d.checkOrder(ctx)
	d.checkKeys(ctx)
	d.checkAlerts(ctx)
	if d.management == nil {
		return
	}
	d.checkOwnQueues()
	d.checkRouteQueues()
	d.checkBindings(ctx)
	d.checkOwnExchanges(ctx)
	d.checkReturns(ctx)
	d.checkLeftovers(ctx)
	d.checkTrust(ctx)
	d.checkReporters(ctx)
	d.checkTapped(ctx)
	d.checkDeadLetters(ctx)
	d.checkDelays(ctx)
	d.checkRoles(ctx)
	d.checkLag(ctx)
}
