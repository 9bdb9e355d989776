package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/doctor/commandline"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/render/wording"
)

const (
	keyStandsAfter = 15 * time.Minute
	maxKeysRead    = 10_000 // waiting messages
)

// checkKeys reports the keys of ordered routes whose later messages have waited for long, and the
// message that each waits for. It reads no more than a number of waiting messages.
func (d *doctor) checkKeys(ctx context.Context, most int) {
	orders := waiting.OrdersOf(d.Settings)
	queues := orders.Queues()
	if d.store == nil || len(queues) == 0 {
		return
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	var ofQueues kql.Or
	for _, queue := range queues {
		ofQueues = append(ofQueues, kql.FieldIs("watership.queue", queue))
	}
	firsts, read, all := map[string][]waiting.WaitingMessage{}, 0, true
	for m, err := range waiting.List(ctx, d.store, orders, ofQueues, time.Now()) {
		if err != nil {
			d.report(KeysUnknown, Warning, err.Error(), "")
			return
		}
		if all = read < most; !all {
			break
		}
		read++
		if m.Order == waiting.First {
			firsts[m.Queue] = append(firsts[m.Queue], m)
		}
	}
	stands := false
	for _, queue := range queues {
		stands = d.reportKeys(queue, firsts[queue]) || stands
	}
	switch {
	case !all:
		d.report(KeysUnread, Warning, fmt.Sprintf("only the first %s, and keys of others may stand",
			wording.PluralVerb(read, "waiting message", "was read", "were read")), "list them with watership waiting")
	case !stands:
		d.reportOK(KeysCheck, "no key of an ordered route stands for more than %s", wording.Duration(keyStandsAfter))
	}
}

// reportKeys reports the keys of a queue that stand for long. Each message that failed has a place, so
// that with more places others wait.
func (d *doctor) reportKeys(queue string, firsts []waiting.WaitingMessage) (reported bool) {
	if places, known := d.queues[d.Topology.Places(queue)]; known && places.Messages <= int64(len(firsts)) {
		return false
	}
	firsts = slices.DeleteFunc(firsts, func(m waiting.WaitingMessage) bool { return time.Since(m.FirstFailed) < keyStandsAfter })
	if len(firsts) == 0 {
		return false
	}
	slices.SortFunc(firsts, func(a, b waiting.WaitingMessage) int { return a.FirstFailed.Compare(b.FirstFailed) })
	var names []string
	for _, m := range firsts {
		name := "message " + cmp.Or(m.MessageID, m.ID)
		if m.Key != "" {
			name = fmt.Sprintf("key %q for %s", m.Key, name)
		}
		names = append(names, name)
	}
	oldest := firsts[0]
	d.add(Finding{
		Code: KeyStands, Verdict: Warning, Since: &oldest.FirstFailed,
		Detail: fmt.Sprintf("later messages of %s at queue %s wait for one that failed more than %s ago: %s; error of the first: %s",
			wording.Plural(len(firsts), "key"), queue, wording.Duration(keyStandsAfter), firstOf(maxNames, names), wording.OneLine(oldest.Error)),
		Remedy:  "mend the service, or go on without a message by watership waiting cancel; then",
		Command: commandline.New("waiting now", "queue: "+queue),
	})
	return true
}
