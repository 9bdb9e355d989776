package routeconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/render/typo"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
)

// Ineffective returns a warning for each status whose class has delays that never apply, since the
// status means poison and the setting has no other meaning for it, and for each whose class has no delays
// and is spelled like one that has.
func Ineffective(cfg config.Config) []string {
	var warnings []string
	for i, route := range cfg.Routes {
		classes := cfg.Retry.Policies[route.Retry].Classes
		for _, text := range slices.Sorted(maps.Keys(route.Handler.HTTP.Statuses)) {
			outcome := route.Handler.HTTP.Statuses[text]
			status, err := strconv.Atoi(text)
			_, delays := classes[outcome.Class]
			name := fmt.Sprintf("routes[%d].handler.http.statuses.%s", i, text)
			if err == nil && delays && outcome.Means == "" && webhook.DefaultMeaning(status) == webhook.Poison {
				warnings = append(warnings, fmt.Sprintf("%s: %d means poison, so the delays of class %s never apply; to retry it, write {means: retry, class: %s}", name, status, outcome.Class, outcome.Class))
			}
			if similar := misspelled(outcome.Class, classes); similar != "" {
				warnings = append(warnings, fmt.Sprintf("%s: class %s has no delays in retry policy %s; the nearest that has is %s", name, outcome.Class, route.Retry, similar))
			}
		}
	}
	return warnings
}

// misspelled returns the class with delays for which another one is mistaken; "" for none.
func misspelled(class string, delays map[string]retry.Policy) string {
	if _, has := delays[class]; has || class == "" {
		return ""
	}
	for _, known := range slices.Sorted(maps.Keys(delays)) {
		if typo.Distance(class, known) <= min(2, len(known)/3) {
			return known
		}
	}
	return ""
}
