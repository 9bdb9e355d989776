package routeconfig

import (
	"maps"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/pipeline/webhook"
)

// Of returns the configuration of the handler. secrets sign its requests.
func Of(to config.HTTPHandler, secrets [][]byte) webhook.Config {
	return webhook.Config{
		URL: to.URL.Reveal(), Method: to.Method, SetHeaders: to.SetHeaders, Hosts: to.Hosts, PrivateNetworks: to.PrivateNetworks,
		Timeout: to.Timeout, Answers: answers(to), Headers: to.Headers, MaxRetryAfter: to.MaxRetryAfter,
		Secrets: secrets, KeepAnswers: to.KeepAnswers,
	}
}

// answers returns the rules about responses: those with conditions first, then single
// statuses, then classes of them, which sort last by their x.
func answers(to config.HTTPHandler) []webhook.Answer {
	var all []webhook.Answer
	for _, a := range to.Answers {
		all = append(all, webhook.Answer{
			Status: a.Status, Header: a.Header, Field: a.Field, Value: a.Value, Means: webhook.Meaning(a.Means), Class: a.Class,
		})
	}
	byStatus := slices.SortedFunc(maps.Keys(to.Statuses), func(a, b string) int { return strings.Compare(a[1:], b[1:]) })
	for _, status := range byStatus {
		a := to.Statuses[status]
		all = append(all, webhook.Answer{Status: status, Means: webhook.Meaning(a.Means), Class: a.Class})
	}
	return all
}
