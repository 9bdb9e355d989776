package frame

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/console/view/chart"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/system"
)

// Filter is the part of a page's URL that selects events. It is the same on every page.
type Filter struct {
	Query    string
	Since    string // such as 24h, or all for no limit
	From, To string // instead of Since

	Zone *time.Location // of times without one; nil: the server's
}

// AllTime is a Since without a limit.
const AllTime = "all"

// ReadFilter reads the filter of a URL. Without a period, a page shows the last
// events of the time since.
func ReadFilter(query url.Values, zone *time.Location, since string) Filter {
	f := Filter{
		Query: strings.TrimSpace(query.Get("q")), Since: query.Get("since"),
		From: strings.TrimSpace(query.Get("from")), To: strings.TrimSpace(query.Get("to")), Zone: zone,
	}
	switch {
	case f.From != "" || f.To != "":
		f.Since = ""
	case f.Since == "":
		f.Since = since
	}
	return f
}

// API returns the filter as operations have it.
func (f Filter) API() eventfilter.QueryFilter {
	selected := eventfilter.Filter{Query: f.Query, Since: f.Last(), From: f.From, To: f.To}
	if f.Zone != nil {
		selected.Zone = f.Zone.String()
	}
	return eventfilter.QueryFilter{Filter: selected}
}

// URL returns the parameters of the filter for a page.
func (f Filter) URL() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"q": f.Query, "since": f.Since, "from": f.From, "to": f.To} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// With returns a link to a page with the filter and another query.
func (f Filter) With(path, query string) string {
	f.Query = query
	return path + "?" + f.URL().Encode()
}

// WithinKeeping returns a link to a page with the filter, another period and other
// parameters of the page.
func (f Filter) WithinKeeping(path, since string, keep map[string]string) string {
	f.Since, f.From, f.To = since, "", ""
	values := f.URL()
	for name, value := range keep {
		values.Set(name, value)
	}
	return path + "?" + values.Encode()
}

// PeriodName describes the period.
func (f Filter) PeriodName() string {
	for _, p := range f.Periods() {
		if p.Since == f.Since {
			return p.Name
		}
	}
	switch {
	case f.Since != "":
		return "Last " + f.Since
	case f.From == "":
		return "Until " + f.To
	case f.To == "":
		return "From " + f.From
	}
	return f.From + " to " + f.To
}

// Period is a quick choice of a period until now.
type Period struct {
	Since, Name string
	Length      time.Duration // 0: no limit
}

// Periods are the quick choices, the shortest first.
func Periods() []Period {
	const hour = time.Hour
	return []Period{
		{"15m", "Last 15 minutes", hour / 4},
		{"1h", "Last hour", hour},
		{"6h", "Last 6 hours", 6 * hour},
		{"24h", "Last 24 hours", 24 * hour},
		{"7d", "Last 7 days", 7 * 24 * hour},
		{"30d", "Last 30 days", 30 * 24 * hour},
		{AllTime, "All time", 0},
	}
}

// Periods are the periods of the package, for templates.
func (Filter) Periods() []Period { return Periods() }

// Last returns Since, or "" for no limit.
func (f Filter) Last() string {
	if f.Since == AllTime {
		return ""
	}
	return f.Since
}

// DependsOnZone reports whether the filter may have a time without a zone, or a day that
// begins in one.
func (f Filter) DependsOnZone() bool {
	text := f.Query
	for _, at := range []string{f.From, f.To} {
		if _, err := time.Parse(time.RFC3339, at); err != nil {
			text += " " + at
		}
	}
	return f.Zone != nil && regexp.MustCompile(`\d{4}-\d\d|now[^ ]*/`).MatchString(text)
}

// Selected returns the time that the filter selects. Without an end, it ends now.
func (f Filter) Selected(now time.Time) (chart.Period, error) {
	p := system.Period{Since: f.Since, From: f.From, To: f.To, Zone: f.Zone}
	if p.Since == AllTime {
		p.Since = ""
	}
	begin, end, err := p.Bounds()
	if end.IsZero() && !begin.IsZero() {
		end = now
	}
	return chart.Period{Begin: begin, End: end, Zone: f.Zone}, err
}
