// Package console serves Watership's pages for browsers: what happened, the messages, the
// failures, replays and routes. Each page is made of responses of the HTTP API, which the
// console asks with the identity of the page's request, so that a role allows and hides
// the same in both. Pages work without script; the scripts in static add completion, live
// numbers and keys.
package console

import (
	"embed"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/watershipmq/watership/internal/console/adoptionpage"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/routepage"
	"github.com/watershipmq/watership/internal/console/subscriptionpage"
	"github.com/watershipmq/watership/internal/console/triagepage"
	"github.com/watershipmq/watership/internal/console/validationpage"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// files has the pages, and the styles and scripts that they load.
//
//go:embed templates static
var files embed.FS

// Config configures a Console.
type Config struct {
	// API is the handler of api.Prefix. Requests have an identity in their context.
	API http.Handler

	// Version is shown at the end of each page.
	Version string

	// Kibana is the address of Kibana, for links to the same query there; nil: no links.
	Kibana *url.URL

	// Stream is the prefix of the data streams, which Kibana's data view has as its id.
	Stream string

	// Server is the address of the HTTP server in commands to copy; nil: the
	// address of the request.
	Server *url.URL

	// Logger gets the errors of templates. Nil: none.
	Logger *slog.Logger
}

// Console is the handler of the pages.
type Console struct {
	*frame.Frame
	config Config
	client frame.Client
}

// New returns the console of an API.
func New(cfg Config) (*Console, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	made, err := frame.New(frame.Config{Files: files, Version: cfg.Version, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	c := &Console{Frame: made, config: cfg, client: frame.NewClient(cfg.API)}
	for pattern, show := range map[string]frame.PageFunc{
		"GET /{$}":            c.showOverview,
		"GET /routes":         c.showRoutes,
		"GET /doctor":         c.showDoctor,
		"GET /alerts":         c.showAlerts,
		"POST /alerts/test":   c.testAlerts,
		"POST /routes/pause":  c.pauseRoute,
		"POST /routes/resume": c.resumeRoute,
		"GET /":               c.notFound,

		"GET /failures":             c.failures,
		"GET /failures/discard":     c.discardPreview,
		"POST /failures/discard":    c.discard,
		"GET /waiting":              c.waiting,
		"GET /waiting/decide":       c.decidePreview,
		"POST /waiting/decide":      c.decide,
		"GET /replays":              c.replays,
		"GET /replays/new":          c.planReplay,
		"POST /replays/new":         c.startReplay,
		"GET /replays/{id}":         c.replay,
		"GET /replays/{id}/cancel":  c.cancelPage,
		"POST /replays/{id}/cancel": c.cancelReplay,
		"POST /replays/{id}/resume": c.resumeReplay,

		"GET /messages":               c.messages,
		"GET /messages/export.csv":    c.exportCSV,
		"GET /messages/export.ndjson": c.exportNDJSON,

		"GET /messages/{id}":          c.message,
		"GET /messages/{id}/image":    c.messageImage,
		"GET /messages/{id}/explain":  c.explainMessage,
		"GET /messages/{id}/discard":  c.messageDiscardForm,
		"POST /messages/{id}/discard": c.discardMessage,
		"GET /messages/{id}/edit":     c.messageEditForm,
		"POST /messages/{id}/edit":    c.sendEdit,
		"GET /messages/{id}/copy":     c.messageCopyForm,
		"POST /messages/{id}/copy":    c.sendCopy,
	} {
		c.Handle(pattern, show)
	}
	adoptionpage.Register(made, c.client)
	routepage.Register(made, c.client)
	subscriptionpage.Register(made, c.client)
	validationpage.Register(made, c.client)
	triagepage.Pages{Frame: made, Client: c.client}.Register()
	return c, nil
}

func (c *Console) notFound(*http.Request) (frame.Response, error) {
	return nil, &problem.Problem{Status: http.StatusNotFound, Detail: "the console has no such page", Remedy: "Start from the overview."}
}
