package config

import (
	"errors"
	"net/url"
	"strings"
)

// Traces are the settings of spans and metrics for OpenTelemetry. They are off without an Endpoint, here or in the
// environment variables of OpenTelemetry, which hold for everything that is not set here.
type Traces struct {
	Endpoint    URL     // of a collector, by HTTP; such as http://localhost:4318. Default: none
	HeadersFile string  // headers of requests to it, one NAME: VALUE a line; "": none
	Sample      float64 // part of the traces that begin here; a traceparent decides for itself. Default: 1

	// Page is the address of a trace in a browser, in which TraceField stands for the id. Default: no links.
	Page string
}

// TraceField is the field of Traces.Page.
const TraceField = "{trace_id}"

func traceKeys(c *Traces) []Key {
	return []Key{
		{Name: "traces.endpoint", Help: "URL of an OpenTelemetry collector that takes OTLP by HTTP (default: OTEL_EXPORTER_OTLP_ENDPOINT, or no traces)", read: scalar(collectorAddress, &c.Endpoint)},
		{Name: "traces.headers_file", Help: "file with headers for the collector, one NAME: VALUE per line", read: scalar(path, &c.HeadersFile)},
		{Name: "traces.sample", Default: "1", Help: "part of the traces without a traceparent of the publisher that is exported, from 0 to 1", read: scalar(number(0, 1), &c.Sample)},
		{Name: "traces.page", Help: "address of a trace for browsers with the field " + TraceField + ", for links in the console (default: no links)", read: scalar(tracePage, &c.Page)},
	}
}

// collectorAddress parses the address of a collector.
func collectorAddress(s string) (URL, error) {
	if s == "" {
		return URL{}, nil
	}
	u, err := address("https", "http")(strings.TrimSuffix(s, "/"))
	if err != nil || strings.ContainsAny(u.Reveal(), "?@") {
		return URL{}, errors.New("expected a URL such as http://localhost:4318, without a login, which belongs into traces.headers_file")
	}
	return u, nil
}

// tracePage parses the address of a trace in a browser.
func tracePage(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	const id = "0af7651916cd43dd8448eb211c80319c"
	before, after, _ := strings.Cut(s, TraceField)
	page, err := url.Parse(before + id + after)
	if err != nil || len(s) > 2000 || page.Scheme != "https" && page.Scheme != "http" || page.Hostname() == "" || page.User != nil ||
		strings.Contains(page.Host, id) || strings.ContainsAny(before+after, "{}") || !strings.Contains(s, TraceField) {
		return "", errors.New("expected a URL such as https://jaeger.example/trace/" + TraceField + ", with this field once, behind the host, and without a login")
	}
	return s, nil
}
