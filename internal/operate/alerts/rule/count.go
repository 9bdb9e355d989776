package rule

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/render/quantity"
	"github.com/watershipmq/watership/internal/render/wording"
)

// countRule finds queues or classes with more failures in a time than a number.
type countRule struct {
	System
	query kql.Node
	cfg   config.AlertRule
}

// maxCounted bounds the queues or classes of a rule.
const maxCounted = 1000

func (r countRule) evaluate(ctx context.Context, _ json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
	recent, err := since(time.Now().Add(-r.cfg.Within))
	if err != nil {
		return nil, nil, err
	}
	if err := r.Store.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	selection := eventstore.Selection{Query: r.ofSource(kql.And{r.query, history.GivenUp(), recent})}
	if r.cfg.By == "none" {
		count, err := r.Store.Count(ctx, selection)
		if err != nil || count <= int64(r.cfg.MoreThan) {
			return nil, nil, err
		}
		return []notice.Alert{r.alert("", "", count)}, nil, nil
	}
	by, field := "queue", "watership.queue"
	if r.cfg.By == "class" {
		by, field = "class", "watership.class"
	}
	counts, err := r.Store.TopValues(ctx, selection, field, maxCounted)
	if err != nil {
		return nil, nil, err
	}
	var found []notice.Alert
	for _, value := range counts.Values {
		if value.Count > int64(r.cfg.MoreThan) {
			found = append(found, r.alert(by, value.Text, value.Count))
		}
	}
	if counts.Without > int64(r.cfg.MoreThan) {
		found = append(found, r.alert(by, "", counts.Without))
	}
	return found, nil, nil
}

// since returns a query for events of a time or later that were recorded since then: an event may
// have a time that is later than now, from a clock that was ahead.
func since(t time.Time) (kql.Node, error) {
	fields, err := eventstore.Fields()
	if err != nil {
		return nil, err
	}
	return kql.Resolve(kql.And{
		from("@timestamp", t.UTC().Format(kql.InstantLayout)),
		from("event.sequence", strconv.FormatInt(t.UnixMicro(), 10)),
	}, fields)
}

func from(field, value string) kql.Node {
	return kql.Range{
		Field: kql.Pattern{field}, Op: kql.GreaterOrEqual, Value: kql.Value{Pattern: kql.Pattern{value}, Quoted: true},
	}
}

func (r countRule) alert(by, value string, count int64) notice.Alert {
	a := notice.Alert{Summary: fmt.Sprintf("%s in %s", wording.Plural(int(count), "failure"), quantity.FormatDuration(r.cfg.Within))}
	query := r.query
	switch {
	case by != "" && value == "":
		a.Labels = map[string]string{"by": by}
		a.Summary += " without a " + by
	case by != "":
		a.Labels = map[string]string{by: value}
		a.Summary += " of " + by + " " + value
		query = kql.And{query, kql.FieldIs("watership."+by, value)}
	}
	a.Detail = fmt.Sprintf("more than %d in %s", r.cfg.MoreThan, quantity.FormatDuration(r.cfg.Within))
	a.Page = failuresPage(query)
	return a
}
