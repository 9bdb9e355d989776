package routeconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/pipeline/webhook"
)

// Ineffective returns a warning for each status whose class has delays that never apply, since the
// status means poison and the setting has no other meaning for it.
func Ineffective(cfg config.Config) []string {
	var warnings []string
	for i, route := range cfg.Routes {
		classes := cfg.Retry.Policies[route.Retry].Classes
		for _, text := range slices.Sorted(maps.Keys(route.Handler.HTTP.Statuses)) {
			outcome := route.Handler.HTTP.Statuses[text]
			status, err := strconv.Atoi(text)
			_, delays := classes[outcome.Class]
			if err == nil && delays && outcome.Means == "" && webhook.DefaultMeaning(status) == webhook.Poison {
				warnings = append(warnings, fmt.Sprintf("routes[%d].handler.http.statuses.%d: %d means poison, so the delays of class %s never apply; to retry it, write {means: retry, class: %s}", i, status, status, outcome.Class, outcome.Class))
			}
		}
	}
	return warnings
}
