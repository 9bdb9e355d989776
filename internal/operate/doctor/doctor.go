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
	"github.com/watershipmq/watership/internal/operate/doctor/commandline"
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
	Product() string
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
	Check   Check      `json:"check"`
	Code    Code       `json:"code"`
	Verdict Verdict    `json:"verdict" enum:"ok,warning,error"`
	Detail  string     `json:"detail"`
	Since   *time.Time `json:"since,omitempty" doc:"When it began, if that is known"`
	Remedy  string     `json:"remedy,omitempty"`

	Command *commandline.Command `json:"command,omitempty" doc:"Command of watership that does what the remedy says last"`
}

// Instruction returns the remedy with the line of its command.
func (f Finding) Instruction() string {
	switch {
	case f.Command == nil:
		return f.Remedy
	case f.Remedy == "":
		return "run " + f.Command.String()
	}
	return f.Remedy + ": " + f.Command.String()
}

// findingList collects findings.
type findingList struct{ findings []Finding }

// add adds a finding, to which its code gives the check.
func (l *findingList) add(f Finding) {
	f.Check = f.Code.check()
	l.findings = append(l.findings, f)
}

func (l *findingList) report(code Code, v Verdict, detail, remedy string) {
	l.add(Finding{Code: code, Verdict: v, Detail: detail, Remedy: remedy})
}

// reportWith reports a finding whose remedy ends with a command.
func (l *findingList) reportWith(command *commandline.Command, code Code, v Verdict, detail, remedy string) {
	l.add(Finding{Code: code, Verdict: v, Detail: detail, Remedy: remedy, Command: command})
}

func (l *findingList) reportOK(check Check, format string, args ...any) {
	l.findings = append(l.findings, Finding{Check: check, Code: NoProblem, Verdict: OK, Detail: fmt.Sprintf(format, args...)})
}

// broker is the broker of a configuration as its management API lists it.
type broker struct {
	Config
	conn       *rabbit.Connection // nil: it cannot be reached
	management *rabbit.Management // nil: it cannot be asked
	version    string             // "" where it is not known
	types      []rabbit.ExchangeType
	queues     map[string]rabbit.Queue
	policies   []rabbit.Policy
}

// topologyChecks compare a broker with the configuration.
type topologyChecks struct {
	*broker
	*findingList
}

// recordChecks look in the store for what does not work.
type recordChecks struct {
	*broker
	*findingList
	store Store // nil: it cannot be reached
}

// doctor connects to the servers. It skips a check that needs the result of one that failed.
type doctor struct {
	broker
	findingList
	store Store // nil: it cannot be reached
}

func newDoctor(cfg Config) *doctor { return &doctor{broker: broker{Config: cfg}} }

func (d *doctor) topology() topologyChecks { return topologyChecks{&d.broker, &d.findingList} }

func (d *doctor) records() recordChecks { return recordChecks{&d.broker, &d.findingList, d.store} }

// Run runs every check and returns their findings.
func Run(ctx context.Context, cfg Config) []Finding {
	d := newDoctor(cfg)
	d.runChecks(ctx)
	return d.findings
}

// Limits finds the policies and delivery limits by which the broker drops messages of
// queues of Watership and of routes. It needs the broker and its management API.
func Limits(ctx context.Context, cfg Config) ([]Finding, error) {
	d := newDoctor(cfg)
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	if err := d.read(ctx); err != nil {
		return nil, err
	}
	d.topology().checkOwnQueues()
	d.topology().checkRouteQueues()
	return slices.DeleteFunc(d.findings, func(f Finding) bool { return f.Verdict != Error }), nil
}

// read connects to the broker and reads what its management API lists.
func (d *doctor) read(ctx context.Context) (err error) {
	if d.conn, err = d.Connect(ctx); err != nil {
		return err
	}
	management, err := d.Management()
	if err != nil {
		return err
	}
	if err := d.readTopology(ctx, management); err != nil {
		return err
	}
	d.management = management
	return nil
}

// bounded returns a context with the time-out for the requests of one check.
func (c Config) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("no answer within %s", c.Timeout))
}

func (d *doctor) runChecks(ctx context.Context) {
	d.findings = append(d.findings, Exposures(d.Settings)...)
	d.checkFiles()
	for _, warning := range routeconfig.Ineffective(d.Settings) {
		d.report(RouteSettingIneffective, Warning, warning, "")
	}
	d.checkBroker(ctx)
	d.checkManagement(ctx)
	d.checkServe(ctx)
	d.checkStore(ctx)
	records := d.records()
	records.checkRouteStates(ctx)
	records.checkSubscriptions(ctx)
	records.checkQuarantine(ctx)
	records.checkRetentionRules(ctx)
	records.checkWatermarks(ctx)
	records.checkOrder(ctx)
	d.checkKeys(ctx, maxKeysRead)
	records.checkAlerts(ctx)
	if d.management == nil {
		return
	}
	topology := d.topology()
	topology.checkOwnQueues()
	topology.checkRouteQueues()
	topology.checkDeliveries()
	topology.checkBindings(ctx)
	topology.checkOwnExchanges(ctx)
	topology.checkReturns(ctx)
	topology.checkLeftovers(ctx)
	topology.checkTrust(ctx)
	topology.checkReporters(ctx)
	topology.checkTapped(ctx)
	topology.checkDeadLetters(ctx)
	topology.checkDelays(ctx)
	topology.checkRoles(ctx)
	topology.checkLag(ctx)
}
