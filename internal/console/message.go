package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/messageform"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/schemas"
)

// messageView is the page of a message.
type messageView struct {
	ID   string
	Tabs []messageTab // the messages with the id; none if there is one
	More bool         // there are more of them

	Event    schemas.Event // with the whole message
	URL      string        // of the message alone
	Name     string
	Trace    string // page of its trace; "": none
	Queues   []history.AtQueue
	Life     []lifeStep
	LifeMore bool
	Error    *schemas.Event // the selected failure, in full
	Headers  header
	Body     bodyView
	Family   family
	Failures []string // events of unresolved failures

	ReplayFailed, ReplayOrigin string // pages of plans
	Alike                      string // page of the failures with the same error; "": the message has none
	Failed                     string // URL of the message as it failed last, which a replay may have changed
	Copied                     string // fingerprint of the copy that a form has sent
	Discarded                  *messageDiscarded
	Done                       time.Time // when a form was sent
}

// messageTab is one of several messages with an id.
type messageTab struct {
	Name, URL string
	First     time.Time
	Exchange  string
	Current   bool
}

// message shows a message. An id that names nothing may belong to a message which
// the store does not have yet.
func (c messagePages) message(r *http.Request) (frame.Response, error) {
	v, found, err := c.findMessage(r)
	if err != nil && frame.ProblemOf(err).Code == code.NotFound {
		return frame.Page{
			Title: "No such message", Section: "/messages", Template: "message_unknown.html", Status: http.StatusNotFound,
			Data: r.PathValue("id"), Styles: []string{"message.css"}, Refresh: refreshUnknown,
		}, nil
	}
	if err != nil {
		return nil, err
	}
	if v.Life, err = lifeOf(found.History); err != nil {
		return nil, err
	}
	for i := range v.Life { // without a traceparent of the publisher, attempts have one
		v.Life[i].Trace = c.traceOf(v.Life[i].Event)
		v.Trace = cmp.Or(v.Trace, v.Life[i].Trace)
	}
	v.LifeMore, v.Queues, v.Headers = found.More, found.Queues, headersOf(v.Event.Envelope.PublisherHeaders())
	v.Error = c.selectedFailure(r, v.Life)
	v.Family = c.family(r, v)
	v.Body = c.body(r, v.Event)
	v.addReplays()
	v.addFailure(found.History)
	v.addDone(c.DoneBefore(r))
	return frame.Page{
		Title: "Message " + v.Name, Section: "/messages", Template: "message.html", Data: v, Styles: []string{"message.css"}, Refresh: v.refresh(time.Now()),
	}, nil
}

// findMessage reads the messages with the id of a request, and selects one: by its place in
// the parameter of the same name.
func (c messagePages) findMessage(r *http.Request) (messageView, messages.Message, error) {
	v := messageView{ID: r.PathValue("id")}
	answer, err := messages.GetMessages.Call(r.Context(), c.api, messages.MessagesInput{ID: v.ID})
	if err != nil {
		return v, messages.Message{}, err
	}
	found := answer.Body
	wanted := r.URL.Query().Get("message")
	selected := 0
	for i, m := range found.Messages {
		e, err := schemas.ParseDocument(m.Event)
		if err != nil {
			return v, messages.Message{}, fmt.Errorf("reading message %q: %w", v.ID, err)
		}
		id := messageID(e)
		if i == 0 || id == wanted {
			selected, v.Event = i, e
			v.URL, v.Name = messagePath(e), cmp.Or(e.Envelope.Properties.MessageID, shortID(id))
		}
		v.Tabs = append(v.Tabs, messageTab{
			Name: shortID(id), First: e.Time, Exchange: e.Envelope.Exchange,
			URL: "/messages/" + url.PathEscape(v.ID) + "?" + url.Values{"message": {id}}.Encode(),
		})
	}
	v.Tabs[selected].Current = true
	if v.More = found.More; len(v.Tabs) == 1 && !v.More {
		v.Tabs = nil
	}
	for _, q := range found.Messages[selected].Queues {
		v.Failures = append(v.Failures, q.Failures...)
	}
	return v, found.Messages[selected], nil
}

// HasFailed reports whether an attempt at the message has failed.
func (v messageView) HasFailed() bool {
	return slices.ContainsFunc(v.Life, func(s lifeStep) bool {
		return s.Action == schemas.RetryScheduled || s.Action == schemas.Poisoned
	})
}

// messagePath returns the path of the page of an event's message alone.
func messagePath(e schemas.Event) string {
	return "/messages/" + url.PathEscape(messageID(e))
}

// messageID returns an id that only the message of an event has.
func messageID(e schemas.Event) string { return cmp.Or(e.Fingerprint, e.EventID) }

// shortID is the beginning of a fingerprint, or a whole id of another form.
func shortID(id string) string {
	if hash, is := strings.CutPrefix(id, "v1:"); is && len(hash) > 12 {
		return hash[:12]
	}
	return id
}

// addFailure adds links of the newest failure in a history: to its group, and to the message that
// failed, which a replay may have changed.
func (v *messageView) addFailure(events []eventjson.Document) {
	v.Failed = v.URL
	for _, document := range slices.Backward(events) {
		e, err := schemas.ParseDocument(document)
		if err != nil || e.RecordedAction() != schemas.Poisoned || e.ErrorGroup() == "" {
			continue
		}
		query := kql.And{kql.FieldIs("queue", e.Queue), kql.FieldIs("error_group", e.ErrorGroup())}
		v.Alike = "/failures?" + url.Values{"q": {query.String()}}.Encode()
		if slices.Contains(v.Failures, e.EventID) {
			v.Failed = messagePath(e)
		}
		return
	}
}

// addReplays adds links to plans of replays: of the unresolved failures, or of the message
// if none exists.
func (v *messageView) addReplays() {
	plan := func(target string, ids []string) string {
		return "/replays/new?" + url.Values{"ids": ids, "target": {target}, "since": {frame.AllTime}}.Encode()
	}
	if len(v.Failures) > 0 {
		v.ReplayFailed = plan("failed_queue", v.Failures)
		v.ReplayOrigin = plan("origin", v.Failures)
	} else {
		v.ReplayOrigin = plan("origin", []string{messageID(v.Event)})
	}
}

const (
	refreshWaiting = 3 * time.Second
	refreshUnknown = 5 * time.Second  // the message may be on its way to the store
	longOverdue    = 10 * time.Minute // an attempt that has not been reported by then may never be
	recently       = time.Minute
)

// refresh returns how often the page is read again: only while something is expected to
// happen.
func (v *messageView) refresh(now time.Time) time.Duration {
	expected := slices.ContainsFunc(v.Queues, func(q history.AtQueue) bool {
		return q.State == history.QueueWaiting && now.Sub(*q.Until) < longOverdue || q.State == history.QueueReplaying && now.Sub(q.Time) < longOverdue
	})
	if expected || now.Sub(v.Done) < recently || len(v.Life) > 0 && now.Sub(v.Life[len(v.Life)-1].Time) < recently {
		return refreshWaiting
	}
	return 0
}

// family is the conversation of a message as a tree.
type family struct {
	Roots   []*relative
	Count   int
	More    bool
	Problem *problem.Problem
}

// relative is a message of a conversation.
type relative struct {
	messages.ConversationMessage
	URL      string
	Name     string
	Current  bool
	Children []*relative
	Depth    int
}

// family returns the conversation. Messages whose parents are not in it are roots.
func (c messagePages) family(r *http.Request, v messageView) family {
	conversation, err := messages.GetConversation.Call(r.Context(), c.api, messages.ConversationInput{ID: messageID(v.Event)})
	if err != nil {
		if p := frame.ProblemOf(err); p.Status != http.StatusNotFound { // as for an event without a fingerprint
			return family{Problem: p}
		}
		return family{}
	}
	found := conversation.Body
	f := family{Count: len(found.Messages), More: found.More}
	byID := map[string]*relative{}
	var all []*relative
	for _, m := range found.Messages {
		m := &relative{
			ConversationMessage: m, URL: "/messages/" + url.PathEscape(m.Fingerprint), Name: cmp.Or(m.MessageID, shortID(m.Fingerprint)),
			Current: m.Fingerprint == v.Event.Fingerprint,
		}
		byID[m.Fingerprint] = m
		all = append(all, m)
	}
	for _, m := range all {
		if parent := byID[m.Parent]; parent != nil && !m.isAncestor(parent, byID) {
			parent.Children = append(parent.Children, m)
		} else {
			f.Roots = append(f.Roots, m)
		}
	}
	for _, root := range f.Roots {
		root.setDepth(0)
	}
	return f
}

// isAncestor reports whether a message is another one or above it. Publishers write the
// names of parents, so they may form a circle: its messages are roots.
func (m *relative) isAncestor(of *relative, byID map[string]*relative) bool {
	seen := map[*relative]bool{}
	for ; of != nil && !seen[of]; of = byID[of.Parent] {
		if of == m {
			return true
		}
		seen[of] = true
	}
	return false
}

func (m *relative) setDepth(depth int) {
	m.Depth = depth
	for _, child := range m.Children {
		child.setDepth(depth + 1)
	}
}

// mayRead reports whether the caller of a request may read bodies.
func mayRead(r *http.Request) bool { return access.FromContext(r.Context()).Bodies }

// IDQuery returns the parameters of a search for all messages with the id.
func (v messageView) IDQuery() string { return searchFor("messaging.message.id", v.ID) }

// LifeQuery returns the parameters of a search for all events of the message.
func (v messageView) LifeQuery() string {
	return searchFor("watership.fingerprint", v.Event.Fingerprint) + "&view=" + eventsView
}

func searchFor(field, value string) string {
	return frame.Filter{Query: kql.FieldIs(field, value).String(), Since: frame.AllTime}.URL().Encode()
}

// EventURL returns the address of the event that has the whole message.
func (v messageView) EventURL() string {
	return httpapi.Prefix + messages.GetEvent.Path + "?" + url.Values{"id": {v.Event.EventID}}.Encode()
}

// CopiedPath returns the fingerprint of the copy, escaped.
func (v messageView) CopiedPath() string { return url.PathEscape(v.Copied) }

// property is a property of the message.
type property struct{ Name, Value string }

// Properties are those that the message has.
func (v messageView) Properties() []property {
	p := v.Event.Envelope.Properties
	var all []property
	for _, name := range messageform.PropertyNames() {
		all = append(all, property{name, messageform.OriginalProperty(p, name)})
	}
	all = append(all, property{"user_id", p.UserID})
	switch p.DeliveryMode {
	case 1:
		all = append(all, property{"delivery_mode", "1 (transient)"})
	case 2:
		all = append(all, property{"delivery_mode", "2 (persistent)"})
	}
	return slices.DeleteFunc(all, func(p property) bool { return p.Value == "" })
}
