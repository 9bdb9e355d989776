package config

import (
	"fmt"
	"testing"
)

func TestDifferences(t *testing.T) {
	const before = `
amqp: {url: "amqp://a:secret@h/", management_url: "http://h/"}
routes: [{queue: a, handler: {http: {url: "http://a/"}}}]
retry: {default: slow, policies: {slow: {delays: [1s, 2s]}}}
roles: [routes, retry]
`
	for after, want := range map[string][]string{
		before:                         nil,
		"# moved by a line\n" + before: nil,
		`
amqp: {url: "amqp://a:other@h/", management_url: "http://h/"}
routes: [{queue: a, handler: {http: {url: "http://b/"}}}]
retry: {default: slow, policies: {slow: {delays: [1s, 2s]}}}
roles: [routes]
stop_timeout: 20s
`: {"amqp.url", "roles", "routes", "stop_timeout"},
		`
amqp: {url: "amqp://a:secret@h/", management_url: "http://h/"}
retry: {default: slow, policies: {slow: {delays: [1s]}}}
roles: [routes, retry]
`: {"retry.policies", "routes"},
	} {
		first, second := load(t, before, nil, nil), load(t, after, nil, nil)
		for _, got := range [][]string{first.Differences(second), second.Clone().Differences(first)} {
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s\ndiffers in %v, expected %v", after, got, want)
			}
		}
	}
}
