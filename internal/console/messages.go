package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/chart"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/searches"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

const (
	messagesPath = "/messages"
	messageRows  = 50
	maxFacets    = 6
)

// eventsView is the value of the parameter view for a list of events instead of messages.
const eventsView = "events"

// messageList is the page of a search.
type messageList struct {
	Filter   frame.Filter
	Asked    frame.Filter // without a default period
	Events   bool         // the list has events, else messages
	Fields   string       // as in the URL: names with commas; of events, "" are the usual columns, and messages have them besides
	Live     bool
	Columns  []columns.Column
	Known    knownFields
	Problem  *problem.Problem // instead of the rows
	Rows     []messageRow     // of events
	Messages []listedRow
	Preview  *preview // of one of the messages
	Span     int      // columns of a list of messages, further ones included
	Skipped  int      // documents that cannot be read
	Cursor   string   // of this page
	Older    string   // cursor of the next page
	Paged    bool     // this page is not the first
	Counts   *frame.Part[eventCounts]
	Wait     string // link to the page with its counts
	Saved    []searches.Search
	Commands commands
	Kibana   string // the same query in Discover
}

// eventCounts are the events of the page over time, and by queue if that is quick.
type eventCounts struct {
	Chart    chart.Histogram
	Queues   []messages.Value
	TakeLong bool // too long for a page, so that there are none
}

// messageRow is an event of the list.
type messageRow struct {
	ID    string // of the event
	Cells []messageCell
}

// messageCell is a value in the list, with a link or a time if it has one.
type messageCell struct {
	Kind columns.Kind
	Text string
	Time time.Time
	Href string
	Mark string // next to an action
}

func (c searchPages) messages(r *http.Request) (frame.Response, error) {
	m, ctx := messageList{}, r.Context()
	asked := r.URL.Query()
	zone, _ := frame.ZoneOf(r)
	m.Filter = frame.ReadFilter(asked, zone, "")
	m.Events = asked.Get("view") == eventsView
	m.Asked = m.Filter
	c.fitPeriod(ctx, &m.Filter)
	m.Live = asked.Get("live") == "1" && m.Filter.To == ""
	m.Fields, m.Cursor = strings.Join(asked["fields"], ","), asked.Get("cursor")
	m.Paged = m.Cursor != ""
	var err error
	if m.Known, err = c.knownFields(ctx); err != nil {
		return nil, err
	}
	if m.Columns, err = columns.Find(m.Known.Fields, m.names()); err == nil {
		if add := strings.TrimSpace(asked.Get("add")); add != "" {
			return m.withColumn(ctx, add)
		}
		err = c.search(r, &m)
	} else {
		err = fieldProblem(ctx, err)
	}
	p := frame.Page{
		Title: "Messages", Section: messagesPath, Template: "messages.html",
		Styles: []string{"message.css", "messages.css"}, Scripts: []string{"query.js", "histogram.js", "messages.js", "late.js"},
	}
	switch {
	case err != nil:
		m.Problem = frame.ProblemOf(err)
		if p.Status = m.Problem.Status; p.Status == http.StatusServiceUnavailable {
			p.Refresh = 5 * time.Second
		}
	case m.Live:
		p.Refresh = 15 * time.Second // of the counts; the rows come by themselves
	}
	m.Commands = c.commands(r, m)
	if m.Problem == nil && c.config.Kibana != nil {
		m.Kibana = m.discover(c.config)
	}
	p.Data = m
	return p, nil
}

// names returns the names of the columns.
func (m messageList) names() []string {
	var names []string
	for name := range strings.SplitSeq(m.Fields, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 && m.Events {
		return columns.Usual()
	}
	return names
}

// withColumn leads to the page with one more column, which a form without script adds.
func (m messageList) withColumn(ctx context.Context, name string) (frame.Response, error) {
	added, err := columns.Find(m.Known.Fields, []string{name})
	if err != nil {
		return nil, fieldProblem(ctx, err)
	}
	return frame.Redirect(m.Adding(added[0].Short)), nil
}

// fieldProblem is the problem of a column, whose name is not in the query.
func fieldProblem(ctx context.Context, err error) error {
	refused := problem.New(ctx, err)
	refused.Position = nil
	return refused
}

// search reads the list and its counts at the same time. The script reads counts again that take longer, so that the
// list is there at once.
func (c searchPages) search(r *http.Request, m *messageList) error {
	asked := r.URL.Query()
	parts := frame.NewParts(r)
	m.Wait = frame.WaitLink(r)
	filter, query := m.Filter, m.Known.resolve(m.Filter.Query)
	m.Counts = frame.Ask(parts, func(ctx context.Context) (eventCounts, error) { return c.count(ctx, filter, query) })
	defer parts.Wait()
	group, ctx := errgroup.WithContext(r.Context())
	if m.Events {
		group.Go(func() error { return c.listEvents(ctx, m) })
	} else {
		group.Go(func() error { return c.listMessages(ctx, m, asked.Get("preview")) })
		group.Go(func() error {
			m.Preview = c.preview(r.WithContext(ctx), asked.Get("preview"))
			return nil
		})
	}
	group.Go(func() error {
		found, err := searches.ListSearches.Call(ctx, c.api, struct{}{})
		if m.Saved = found.Body.Searches; err != nil {
			m.Saved = nil // the page is of use without them
		}
		return nil
	})
	return group.Wait()
}

// count counts the events of the page, unless that takes long.
func (c searchPages) count(ctx context.Context, f frame.Filter, query kql.Node) (counts eventCounts, err error) {
	limited, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	begin := time.Now()
	counts.Chart, err = c.countOver(limited, f, query, begin)
	switch {
	case err == nil && time.Since(begin) < quickCount: // counting by queue takes about as long
		counts.Queues = c.topValues(limited, f, "watership.queue", maxFacets)
	case ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded):
		return eventCounts{TakeLong: true}, nil
	}
	return counts, err
}

// listEvents reads the rows of events.
func (c searchPages) listEvents(ctx context.Context, m *messageList) error {
	page, err := messages.SearchEvents.Call(ctx, c.api, messages.SearchInput{
		QueryFilter: m.Filter.API(), WithBody: slices.ContainsFunc(m.Columns, columns.Column.OfBody), Limit: messageRows, Cursor: m.Cursor,
	})
	if err != nil {
		return err
	}
	found := page.Body
	m.Older, m.Skipped = found.Cursor, len(found.Unreadable)
	for _, document := range found.Events {
		row, err := newMessageRow(document, m.Columns, m.Filter.Zone)
		if err != nil {
			return err
		}
		m.Rows = append(m.Rows, row)
	}
	return nil
}

func newMessageRow(document eventjson.Document, shown []columns.Column, zone *time.Location) (messageRow, error) {
	e, err := schemas.ParseDocument(document)
	if err != nil {
		return messageRow{}, err
	}
	values, err := columns.Parse(document)
	if err != nil {
		return messageRow{}, err
	}
	row := messageRow{ID: e.EventID}
	link := max(slices.IndexFunc(shown, func(c columns.Column) bool { return c.Kind == columns.Message }), 0)
	for i, column := range shown {
		cell := newMessageCell(e, values, column, zone)
		if i == link {
			cell.Href = messageLink(e)
		}
		row.Cells = append(row.Cells, cell)
	}
	return row, nil
}

func newMessageCell(e schemas.Event, values columns.Document, column columns.Column, zone *time.Location) messageCell {
	cell := messageCell{Kind: column.Kind, Text: wording.OneLine(values.Text(column.Name))}
	switch column.Kind {
	case columns.Time:
		if at, err := time.Parse(time.RFC3339, values.Text(column.Name)); err == nil {
			cell.Time = at
		}
	case columns.Action:
		cell.Text = string(e.Action)
		if refused, is := e.Refused(); is {
			cell.Text, cell.Mark = string(refused.Action), "quarantined"
		}
	case columns.Exchange:
		if cell.Text == "" && !e.Action.OfNoMessage() {
			cell.Text = "(default)"
		}
	case columns.Message:
		cell.Text = wording.OneLine(columns.MessageID(e))
	case columns.Failure:
		cell.Text = wording.OneLine(frame.Clock(zone).ErrorText(e))
	}
	return cell
}

// messageLink returns the page of an event's message, by its shortest id that can name a page.
func messageLink(e schemas.Event) string {
	if id := columns.MessageID(e); frame.NamesPage(id) {
		return frame.MessageURL(id)
	}
	return frame.MessageURL(e.EventID)
}

// knownFields are the fields that the API lists.
type knownFields struct {
	kql.Fields
	Names []string // as queries can name them
}

func (c searchPages) knownFields(ctx context.Context) (known knownFields, err error) {
	listed, err := messages.ListFields.Call(ctx, c.api, struct{}{})
	for _, field := range listed.Body.Fields {
		known.Known = append(known.Known, kql.Field{Name: field.Name, Type: kql.FieldType(field.Type)})
		if !strings.HasSuffix(field.Name, ".*") {
			known.Names = append(known.Names, field.Short)
		}
	}
	for _, label := range listed.Body.Labels {
		known.Labels, known.Names = append(known.Labels, label.Name), append(known.Names, label.Short)
	}
	return known, err
}

// resolve returns a query as a tree with full names; nil if it has a mistake.
func (k knownFields) resolve(query string) kql.Node {
	node, err := kql.Parse(query)
	if err == nil {
		node, err = kql.Resolve(node, k.Fields)
	}
	if err != nil {
		return nil
	}
	return node
}
