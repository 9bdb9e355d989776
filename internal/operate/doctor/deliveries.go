package doctor

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/wording"
)

// enoughTime is RabbitMQ's default of consumer_timeout. Handlers, and messages that wait in the process for
// earlier ones of their key, need less.
const enoughTime = 30 * time.Minute

// checkDeliveries looks for policies by which RabbitMQ takes messages from their consumers, or keeps back those
// that a consumer returns: two handlers have a message at once, or later messages of a key overtake it.
func (t topologyChecks) checkDeliveries() {
	own, _ := t.ownQueues()
	timeouts, delays := byPolicy{}, byPolicy{}
	for _, name := range own {
		timeouts.add(t.queues[name], t.timeoutOf)
		delays.add(t.queues[name], returnsDelayed)
	}
	for _, route := range t.Settings.Routes {
		queue := t.queues[route.Queue]
		if route.HasHandler() {
			timeouts.add(queue, t.timeoutOf)
		}
		if route.HasHandler() && route.Fairness.Ordered {
			delays.add(queue, returnsDelayed)
		}
	}
	for by, names := range timeouts.sorted() {
		t.report(DeliveriesTimeOut, Error, fmt.Sprintf("%s takes a message from its consumer after a while (%s), and gives it to another one at the same time, in %s: %s",
			by.policies, by.setting, wording.Plural(len(names), "queue"), firstOf(maxNames, names)),
			fmt.Sprintf("set consumer-timeout to at least %d there, or narrow the pattern of %s so that it leaves these queues out", enoughTime.Milliseconds(), by.policies))
	}
	for by, names := range delays.sorted() {
		t.report(ReturnsDelayed, Error, fmt.Sprintf("%s keeps back what a consumer returns (%s), so that later messages overtake it, in %s: %s",
			by.policies, by.setting, wording.Plural(len(names), "queue"), firstOf(maxNames, names)),
			fmt.Sprintf("take delayed-retry-type out of %s, or narrow its pattern so that it leaves these queues out", by.policies))
	}
}

// timeoutOf returns the consumer-timeout of a queue, if it is too short; "": it is not. RabbitMQ 4.3 has none for
// classic queues.
func (b *broker) timeoutOf(queue rabbit.Queue) string {
	ms, has := integer(queue.Effective["consumer-timeout"])
	if !has || ms >= enoughTime.Milliseconds() || queue.Type == "classic" && !isOlder(b.version, "4.3") {
		return ""
	}
	return fmt.Sprintf("consumer-timeout %d", ms)
}

// returnsDelayed returns the delayed-retry-type of a queue, which RabbitMQ 4.3 has for quorum queues; "": it has none.
func returnsDelayed(queue rabbit.Queue) string {
	kind, has := queue.Effective["delayed-retry-type"].(string)
	if !has || kind == "disabled" || queue.Type != "quorum" {
		return ""
	}
	return "delayed-retry-type " + kind
}

// policySetting is a setting of a queue, and the policies that it is of.
type policySetting struct{ policies, setting string }

// byPolicy are the names of queues, by a setting that they have of policies.
type byPolicy map[policySetting][]string

// add adds a queue, if it has a setting.
func (b byPolicy) add(queue rabbit.Queue, settingOf func(rabbit.Queue) string) {
	if setting := settingOf(queue); setting != "" {
		by := policySetting{policiesOf(queue), setting}
		b[by] = append(b[by], queue.Name)
	}
}

// sorted returns the names by settings, in the order of the first names.
func (b byPolicy) sorted() iter.Seq2[policySetting, []string] {
	return func(yield func(policySetting, []string) bool) {
		byName := func(x, y policySetting) int { return cmp.Compare(b[x][0], b[y][0]) }
		for _, by := range slices.SortedFunc(maps.Keys(b), byName) {
			if !yield(by, b[by]) {
				return
			}
		}
	}
}
