package doctor

import (
	"maps"
	"slices"

	"github.com/watershipmq/watership/internal/rabbit"
)

// argumentDifferences compares the arguments of a route with the arguments with which its queue was
// declared first, and which it keeps. Arguments that the route leaves out do not differ.
func argumentDifferences(of map[string]any, queue rabbit.Queue) (differences []string) {
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
	return differences
}
