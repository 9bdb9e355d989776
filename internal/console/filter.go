package console

import (
	"net/url"
	"strings"
	"time"
)

// filter is the part of a page's URL that selects events. It is the same on every page.
type filter struct {
	Query    string
	Since    string // such as 24h, or all for no limit
	From, To string // instead of Since

	zone *time.Location
}

// allTime is a Since without a limit.
const allTime = "all"

// readFilter reads the filter of a URL. Without a period, the last events of a page are
// those of since.
func readFilter(query url.Values, zone *time.Location, since string) filter {
	f := filter{
		Query: strings.TrimSpace(query.Get("q")), Since: query.Get("since"),
		From: strings.TrimSpace(query.Get("from")), To: strings.TrimSpace(query.Get("to")), zone: zone,
	}
	switch {
	case f.From != "" || f.To != "":
		f.Since = ""
	case f.Since == "":
		f.Since = since
	}
	return f
}

// api returns the parameters of the filter for the API.
func (f filter) api() url.Values {
	values := url.Values{}
	since := f.Since
	if since == allTime {
		since = ""
	}
	for name, value := range map[string]string{"query": f.Query, "since": since, "from": f.From, "to": f.To} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if f.zone != nil {
		values.Set("zone", f.zone.String())
	}
	return values
}

// URL returns the parameters of the filter for a page.
func (f filter) URL() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"q": f.Query, "since": f.Since, "from": f.From, "to": f.To} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// With returns a link to a page with the filter and another query.
func (f filter) With(path, query string) string {
	f.Query = query
	return path + "?" + f.URL().Encode()
}

// WithinKeeping returns a link to a page with the filter, another period and other
// parameters of the page.
func (f filter) WithinKeeping(path, since string, keep map[string]string) string {
	f.Since, f.From, f.To = since, "", ""
	values := f.URL()
	for name, value := range keep {
		values.Set(name, value)
	}
	return path + "?" + values.Encode()
}

// PeriodName describes the period.
func (f filter) PeriodName() string {
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

// period is a quick choice of a period.
type period struct{ Since, Name string }

// Periods are the quick choices, the shortest first.
func (filter) Periods() []period {
	return []period{
		{"15m", "Last 15 minutes"},
		{"1h", "Last hour"},
		{"6h", "Last 6 hours"},
		{"24h", "Last 24 hours"},
		{"7d", "Last 7 days"},
		{"30d", "Last 30 days"},
		{allTime, "All time"},
	}
}
