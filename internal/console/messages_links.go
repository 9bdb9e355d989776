package console

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/render/columns"
)

// Keep are the parameters of the page besides its filter, for forms.
func (m messageList) Keep() map[string]string {
	keep := map[string]string{}
	if m.Fields != "" {
		keep["fields"] = m.Fields
	}
	if m.Live {
		keep["live"] = "1"
	}
	if m.Events {
		keep["view"] = eventsView
	}
	return keep
}

// link returns the page with a filter and other parameters.
func (m messageList) link(path string, f frame.Filter, more map[string]string) string {
	values := f.URL()
	for name, value := range more {
		if value != "" {
			values.Set(name, value)
		}
	}
	return path + "?" + values.Encode()
}

// OlderPage returns the link to the next page.
func (m messageList) OlderPage() string {
	keep := m.Keep()
	delete(keep, "live")
	keep["cursor"] = m.Older
	return m.link(messagesPath, m.Filter, keep)
}

// Newest returns the link to the first page.
func (m messageList) Newest() string { return m.link(messagesPath, m.Filter, m.Keep()) }

// Address returns the page as it is saved.
func (m messageList) Address() string { return m.link(messagesPath, m.Asked, m.Keep()) }

// Toggled returns the link that begins or ends the live tail.
func (m messageList) Toggled() string {
	keep, f := m.Keep(), m.Filter
	if m.Live {
		delete(keep, "live")
	} else if keep["live"] = "1"; f.To != "" {
		f = frame.Filter{Query: f.Query, Since: usualPeriod, Zone: f.Zone}
	}
	return m.link(messagesPath, f, keep)
}

// Narrowed returns the link to the events with a value besides.
func (m messageList) Narrowed(field, value string) string {
	f := m.Filter
	f.Query = frame.Within(f.Query, kql.Is{Field: kql.Pattern{field}, Value: kql.Value{Pattern: kql.Pattern{value}}}.String())
	return m.link(messagesPath, f, m.Keep())
}

// ZoomedBars returns the links to the events of each bar.
func (m messageList) ZoomedBars() []string {
	links := make([]string, len(m.Counts.Value.Chart.Bars))
	for i, bar := range m.Counts.Value.Chart.Bars {
		f := m.Filter
		f.Since, f.From, f.To = "", utcText(bar.From), utcText(bar.To)
		keep := m.Keep()
		delete(keep, "live")
		links[i] = m.link(messagesPath, f, keep)
	}
	return links
}

func utcText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Export returns the link to a download.
func (m messageList) Export(path string) string {
	more := map[string]string{}
	if strings.HasSuffix(path, ".csv") {
		more["fields"] = m.eventFields()
	}
	return m.link(path, m.Filter, more)
}

// Replay returns the link to a plan for the same messages.
func (m messageList) Replay() string { return m.link("/replays/new", m.Filter, nil) }

// eventFields are the columns as a list of events has them.
func (m messageList) eventFields() string {
	if m.Events || m.Fields == "" {
		return m.Fields
	}
	names := make([]string, 0, len(columns.Usual()))
	for _, name := range columns.Usual() {
		names = append(names, m.Known.Short(name))
	}
	return strings.Join(append(names, m.shorts()...), ",")
}

// Switched returns the link to the list of events, or back to the list of messages.
func (m messageList) Switched() string {
	keep := m.Keep()
	if !m.Events {
		keep["view"], keep["fields"] = eventsView, m.eventFields()
		return m.link(messagesPath, m.Filter, keep)
	}
	delete(keep, "view")
	further := slices.DeleteFunc(m.shorts(), func(short string) bool {
		return slices.ContainsFunc(columns.Usual(), func(name string) bool { return m.Known.Short(name) == short })
	})
	keep["fields"] = strings.Join(further, ",")
	return m.link(messagesPath, m.Filter, keep)
}

// Previewed returns the link to the page with the preview of a message in its list; "": without.
func (m messageList) Previewed(fingerprint string) string {
	keep := m.Keep()
	keep["cursor"] = m.Cursor
	if keep["preview"] = fingerprint; fingerprint == "" {
		return m.link(messagesPath, m.Filter, keep)
	}
	return m.link(messagesPath, m.Filter, keep) + "#preview"
}

// Tail returns the URL of the events that follow.
func (m messageList) Tail() string {
	asked := url.Values{}
	if m.Filter.Query != "" {
		asked.Set("query", m.Filter.Query)
	}
	if slices.ContainsFunc(m.Columns, columns.Column.OfBody) {
		asked.Set("body", "true")
	}
	return httpapi.Prefix + "/events/tail?" + asked.Encode()
}

// shorts returns the names of the columns for a URL.
func (m messageList) shorts() []string {
	names := make([]string, len(m.Columns))
	for i, column := range m.Columns {
		names[i] = column.Short
	}
	return names
}

// WithColumns returns the link to the page with other columns.
func (m messageList) WithColumns(names []string) string {
	keep := m.Keep()
	keep["fields"] = strings.Join(names, ",")
	return m.link(messagesPath, m.Filter, keep)
}

// WithoutColumn returns the link to the page without a column.
func (m messageList) WithoutColumn(at int) string {
	return m.WithColumns(slices.Delete(m.shorts(), at, at+1))
}

// Moved returns the link to the page with a column before the one on its left.
func (m messageList) Moved(at int) string {
	names := m.shorts()
	names[at-1], names[at] = names[at], names[at-1]
	return m.WithColumns(names)
}

// Offered are names of further columns that are often of use.
func (m messageList) Offered() []string {
	often := append([]string{
		"error.type", "watership.class", "watership.error_group", "event.duration", "watership.queue_time", "watership.total_time", "watership.delay", "watership.fingerprint", "messaging.type",
		"messaging.message.conversation_id", "messaging.content_type", "messaging.message.body.size", "watership.vhost", "watership.replay.job",
	}, m.Known.Labels...)
	chosen, offered := m.shorts(), []string{}
	if m.Events {
		often = append(often, columns.Usual()...)
	}
	for _, name := range often {
		if short := m.Known.Short(name); !slices.Contains(chosen, short) {
			offered = append(offered, short)
		}
	}
	return offered
}

// Adding returns the link to the page with one column more.
func (m messageList) Adding(name string) string { return m.WithColumns(append(m.shorts(), name)) }
