package frame

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation/access"
)

// Page is a response with a template in the layout.
type Page struct {
	Title    string
	Section  string // of the navigation: its path
	Template string
	Status   int // 0: 200
	Data     any

	// Styles and Scripts are files of static that the page needs besides the
	// files of the layout.
	Styles, Scripts []string

	// Badge is a number before the title, such as the number of open failures, which the tabs of a browser
	// show; 0: no number. With HasBadge, the script reads the page again for it while the tab is hidden, too.
	Badge    int
	HasBadge bool

	// Refresh is how often the script reads the page again while it is visible,
	// to replace the elements with the attribute data-live; 0: never.
	Refresh time.Duration
}

// View is what templates see as $: the page and the request that it answers.
type View struct {
	Page
	Sections []section
	Caller   access.Identity
	Version  string
	Path     string         // of the request, with its query
	Zone     *time.Location // in which times are shown
	NeedZone bool           // the browser has not told its zone yet
	Now      time.Time
	prefix   string // of assets
}

// section is a page of the navigation.
type section struct{ Path, Name, Key string }

// sections are in the order of the navigation. Key goes there after g.
func sections() []section {
	return []section{
		{"/", "Overview", "o"},
		{"/messages", "Messages", "m"},
		{"/failures", "Failures", "f"},
		{"/waiting", "Waiting", "w"},
		{"/replays", "Replays", "r"},
		{"/routes", "Routes", "q"},
		{"/subscriptions", "Subscriptions", "s"},
		{"/alerts", "Alerts", "a"},
		{"/doctor", "Doctor", "d"},
	}
}

// Write implements Response.
func (p Page) Write(f *Frame, w http.ResponseWriter, r *http.Request) {
	zone, known := ZoneOf(r)
	v := View{
		Page: p, Sections: sections(), Caller: access.FromContext(r.Context()), Version: f.config.Version,
		Path: r.URL.RequestURI(), Zone: zone, NeedZone: !known, Now: time.Now(), prefix: f.assets.prefix,
	}
	var text bytes.Buffer
	if err := f.templates[p.Template].Execute(&text, v); err != nil {
		f.config.Logger.Error("a page of the console cannot be made", "page", p.Template, "path", r.URL.Path, "error", err)
		http.Error(w, "the page cannot be made: see the log of the server", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	if p.Status != 0 {
		w.WriteHeader(p.Status)
	}
	_, _ = text.WriteTo(w)
}

// Block returns the text of a block of a template.
func (f *Frame) Block(page, block string, data any) (template.HTML, error) {
	made, known := f.templates[page]
	if !known {
		return "", fmt.Errorf("the console has no template %s", page)
	}
	var text strings.Builder
	if err := made.ExecuteTemplate(&text, block, data); err != nil {
		return "", fmt.Errorf("block %s of the template %s: %w", block, page, err)
	}
	return template.HTML(text.String()), nil // whose values the template has escaped
}

// zoneCookie has the time zone of the browser, which the script sets.
const zoneCookie = "watership-zone"

// ZoneOf returns the time zone of the browser, or UTC before its script has told it.
func ZoneOf(r *http.Request) (zone *time.Location, known bool) {
	cookie, err := r.Cookie(zoneCookie)
	if err != nil || cookie.Value == "" || cookie.Value == "Local" {
		return time.UTC, false
	}
	if zone, err = time.LoadLocation(cookie.Value); err != nil {
		return time.UTC, true // the browser knows a zone that the server does not
	}
	return zone, true
}

// Asset returns the URL of a file of static.
func (v View) Asset(name string) string { return v.prefix + name }

// May reports whether the caller has a role.
func (v View) May(role string) bool {
	needed, err := access.ParseRole(role)
	return err == nil && v.Caller.May(needed)
}

// SignedIn reports whether the caller can sign out.
func (v View) SignedIn() bool { return v.Caller.Method != access.ByLoopback }

// RefreshSeconds is for the script.
func (v View) RefreshSeconds() int { return int(v.Refresh / time.Second) }
