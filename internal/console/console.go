// Package console serves Watership's pages for browsers: what happened, the messages, the
// failures, replays and routes. Each page is made of the operations of the HTTP API, which are
// done for the identity of the page's request, so that a role allows and hides the same in
// both. Pages work without script; the scripts in static add completion, live
// numbers and keys.
package console

import (
	"embed"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/console/actionpage"
	"github.com/watershipmq/watership/internal/console/adoptionpage"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/routepage"
	"github.com/watershipmq/watership/internal/console/subscriptionpage"
	"github.com/watershipmq/watership/internal/console/triagepage"
	"github.com/watershipmq/watership/internal/console/validationpage"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// files has the pages, and the styles and scripts that they load.
//
//go:embed templates static
var files embed.FS

// Config configures a Console.
type Config struct {
	// API does the operations for the identity in the context of a page's request.
	API operation.Via

	// Version is shown at the end of each page.
	Version string

	// Kibana is the address of Kibana, for links to the same query there; nil: no links.
	Kibana *url.URL

	// Trace is the address of a trace, with config.TraceField for its id; "": no links.
	Trace string

	// Stream is the prefix of the data streams, which Kibana's data view has as its id.
	Stream string

	// Server is the address of the HTTP server in commands to copy; nil: the
	// address of the request.
	Server *url.URL

	// Logger gets the errors of templates. Nil: none.
	Logger *slog.Logger
}

// Console is the handler of the pages.
type Console struct{ *frame.Frame }

// pages has the parts that all pages share.
type pages struct {
	*frame.Frame
	config Config
	api    operation.Via
}

// The pages by their subjects.
type (
	systemPages struct{ pages }
	mapPages    struct{ pages } // the map of services

	receiverPages struct{ pages } // the receivers of webhooks
	failurePages  struct{ pages } // and waiting messages
	replayPages   struct{ pages }
	searchPages   struct{ pages }
	messagePages  struct{ pages } // a message
)

// New returns the console of an API.
func New(cfg Config) (*Console, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	made, err := frame.New(frame.Config{Files: files, Version: cfg.Version, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	p := pages{made, cfg, cfg.API}
	made.Handle("GET /", notFound)
	systemPages{p}.register()
	receiverPages{p}.register()
	made.Handle("GET /map", mapPages{p}.show)
	made.Handle("GET /docs", showDocs)
	made.Handle("GET /docs/{page}", showDocs)
	made.Handle("GET /docs/images/{name}", showDrawing)
	failurePages{p}.register()
	replayPages{p}.register()
	searchPages{p}.register()
	messagePages{p}.register()
	err = actionpage.Register(made, actionpage.Of(p.api, failures.DiscardFailures), actionpage.Of(p.api, failures.ResolveFailures), p.decision())
	if err != nil {
		return nil, err
	}
	adoptionpage.Register(made, cfg.API)
	routepage.Register(made, cfg.API)
	subscriptionpage.Register(made, cfg.API)
	validationpage.Register(made, cfg.API)
	approvalPages{p}.register()
	subjectPages{p}.register()
	triagepage.Pages{Frame: made, API: cfg.API}.Register()
	return &Console{made}, nil
}

func (c systemPages) register() {
	c.Handle("GET /{$}", c.showOverview)
	c.Handle("GET /routes", c.showRoutes)
	c.Handle("POST /routes/pause", c.pauseRoute)
	c.Handle("POST /routes/resume", c.resumeRoute)
	c.Handle("GET /times", c.showTimes)
	c.Handle("GET /doctor", c.showDoctor)
	c.Handle("GET /alerts", c.showAlerts)
	c.Handle("POST /alerts/test", c.testAlerts)
}

func (c receiverPages) register() {
	c.Handle("GET /receivers", c.showReceivers)
	c.Handle("GET /receiver", c.showReceiver)
	c.Handle("POST /receiver/hold", c.holdReceiver)
	c.Handle("POST /receiver/release", c.releaseReceiver)
}

func (c failurePages) register() {
	c.Handle("GET /failures", c.failures)
	c.Handle("GET /waiting", c.waiting)
}

func (c replayPages) register() {
	c.Handle("GET /replays", c.replays)
	c.newReplay().Add(c.Frame)
	c.Handle("GET /replays/{id}", c.replay)
	c.Handle("GET /replays/{id}/cancel", c.cancelPage)
	c.Handle("POST /replays/{id}/cancel", c.cancelReplay)
	c.Handle("POST /replays/{id}/resume", c.resumeReplay)
}

func (c searchPages) register() {
	c.Handle("GET /messages", c.messages)
	c.Handle("GET /messages/export.csv", c.exportCSV)
	c.Handle("GET /messages/export.ndjson", c.exportNDJSON)
	c.Handle("GET /searches", c.searches)
	c.Handle("POST /searches", c.saveSearch)
	c.Handle("POST /searches/{id}/rename", c.renameSearch)
	c.Handle("POST /searches/{id}/delete", c.deleteSearch)
}

func (c messagePages) register() {
	c.Handle("GET /messages/{id}", c.message)
	c.Handle("GET /messages/{id}/image", c.messageImage)
	c.Handle("GET /messages/{id}/original", c.originalForm)
	c.HandleQuery("POST /messages/{id}/original", c.showOriginal)
	c.Handle("GET /messages/{id}/explain", c.explainMessage)
	c.discardMessage().Add(c.Frame)
	c.Handle("GET /messages/{id}/edit", c.messageEditForm)
	c.Handle("POST /messages/{id}/edit", c.sendEdit)
	c.Handle("GET /messages/{id}/copy", c.messageCopyForm)
	c.Handle("POST /messages/{id}/copy", c.sendCopy)
}

func notFound(*http.Request) (frame.Response, error) {
	return nil, &problem.Problem{Code: code.NotFound, Detail: "the console has no such page", Remedy: "Start from the overview."}
}
