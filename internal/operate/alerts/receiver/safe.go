package receiver

import (
	"context"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/render/wording"
)

// sendSafely returns a function that sends a notice whose texts have no control characters and no marks of
// direction. Messages may have put them there, and where a receiver prints a notice, they would act on the
// terminal, forge lines, or reorder the text.
func sendSafely(send func(context.Context, notice.Notice) (string, error)) func(context.Context, notice.Notice) (string, error) {
	return func(ctx context.Context, n notice.Notice) (string, error) {
		alerts := make([]notice.Item, len(n.Alerts))
		for i, item := range n.Alerts {
			alerts[i] = safe(item)
		}
		n.Alerts = alerts
		return send(ctx, n)
	}
}

// safe returns an alert with texts of one line each.
func safe(item notice.Item) notice.Item {
	item.Summary, item.Detail, item.Muted = wording.OneLine(item.Summary), wording.OneLine(item.Detail), wording.OneLine(item.Muted)
	labels := make(map[string]string, len(item.Labels))
	for name, value := range item.Labels {
		labels[name] = wording.OneLine(value)
	}
	item.Labels = labels
	return item
}
