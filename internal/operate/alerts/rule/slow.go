package rule

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/render/quantity"
	"github.com/watershipmq/watership/internal/render/wording"
)

// slowRule finds queues with a time of work that is longer than a duration, for more than
// five percent of the attempts in a time.
type slowRule struct {
	System
	query kql.Node
	cfg   config.AlertRule
}

func (r slowRule) evaluate(ctx context.Context, _ json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
	recent, err := since(time.Now().Add(-r.cfg.Within))
	if err != nil {
		return nil, nil, err
	}
	if err := r.Store.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	field, name := history.TotalTime, "from publish to handled"
	switch r.cfg.Time {
	case "queue":
		field, name = history.QueueTime, "in the queue"
	case "handler":
		field, name = history.HandlerTime, "in the handler"
	}
	selection := eventstore.Selection{Query: r.ofSource(kql.And{r.query, history.Attempts(), recent})}
	found, err := r.Store.Percentiles(ctx, selection, "watership.queue", maxCounted, field)
	if err != nil {
		return nil, nil, err
	}
	var alerts []notice.Alert
	for _, v := range found.Values {
		p := v.Fields[0]
		if p95 := time.Duration(p.P95); p95 > r.cfg.SlowerThan {
			alerts = append(alerts, r.alert(v.Text, name, p95, p.Count))
		}
	}
	return alerts, nil, nil
}

func (r slowRule) alert(queue, name string, p95 time.Duration, attempts int64) notice.Alert {
	query, within := kql.And{r.query, kql.FieldIs("watership.queue", queue)}, quantity.FormatDuration(r.cfg.Within)
	return notice.Alert{
		Labels:  map[string]string{"queue": queue},
		Summary: fmt.Sprintf("queue %s is slow: p95 %s %s, in %s", queue, wording.Duration(p95), name, within),
		Detail:  fmt.Sprintf("longer than %s, of %s", quantity.FormatDuration(r.cfg.SlowerThan), wording.Plural(int(attempts), "known time")),
		Page:    "/times?" + url.Values{"q": {query.String()}, "since": {within}}.Encode(),
	}
}
