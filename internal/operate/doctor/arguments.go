package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/rabbit"
)

// checkArguments compares the arguments of a route with those of its queue, which has kept the ones with
// which it was declared first. What the route leaves out may be as the queue has it.
func (t topologyChecks) checkArguments(of map[string]any, queue rabbit.Queue) {
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		wanted, declared := rabbit.SettingText(of[name]), "no "+name
		if value, there := queue.Arguments[name]; there {
			declared = name + " " + rabbit.SettingText(value)
		} else if name == "x-queue-type" {
			declared = name + " " + queue.Type
		}
		if declared != name+" "+wanted {
			differences = append(differences, declared+" instead of "+wanted)
		}
	}
	if len(differences) > 0 {
		t.report(RouteArgumentsDiffer, Warning, fmt.Sprintf("queue %s was declared with other arguments than those of its route: %s", queue.Name, strings.Join(differences, ", ")),
			"a queue's arguments never change: write those of the queue into routes; or let it run empty, delete it, and run watership setup")
	}
}
