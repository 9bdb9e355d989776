package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// One route calls the receivers of its messages. Those that may not be called are poison,
// with the reason, and however many there are in a row, the route does not pause.
func TestReceiversOfMessages(t *testing.T) {
	servertest.OnNewest(t, func(t *testing.T, p servertest.Parts) {
		first, second := servertest.NewService(t, servertest.Success), servertest.NewService(t, servertest.Success)
		i := p.Install(t, "{headers.callback_url}")
		i.Rewrite(t, "timeout: 10s", fmt.Sprintf(`timeout: 10s, hosts: [%q, %q], method: "{headers.verb}", set_headers: {Authorization: "Bearer {body.json.token}"}, private_networks: [127.0.0.1/32]`,
			strings.TrimSuffix(first.URL, "/"), strings.TrimSuffix(second.URL, "/")))
		i.Serve(t)
		channel := p.Broker.Channel(t)
		publish := func(id string, url any) {
			t.Helper()
			err := channel.Publish(i.Exchange, "k", false, false, amqp.Publishing{
				MessageId: id, Body: []byte(`{"token": "t-` + id + `"}`), Headers: amqp.Table{"callback_url": url, "verb": "PUT"},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for n := range 10 {
			publish(fmt.Sprint("none-", n), nil)
			publish(fmt.Sprint("other-", n), "http://evil.example/?s3cret")
		}
		publish("first", first.URL+"hook?a=b")
		publish("second", second.URL+"other")
		i.Eventually(t, "action: handled", 2)
		for id, service := range map[string]*servertest.Service{"first": first, "second": second} {
			posts := service.Got()
			if len(posts) != 1 || len(posts[id]) != 1 || posts[id][0].Header.Get("Authorization") != "Bearer t-"+id {
				t.Errorf("%s got %+v", id, posts)
			}
		}
		for _, e := range i.Eventually(t, "action: poisoned and error.type: field_missing", 10) {
			if e.Attempt != 1 || e.Failure.Message != "URL of the request: the message has no headers.callback_url" {
				t.Errorf("poisoned %+v", e.Failure)
			}
		}
		for _, e := range i.Eventually(t, "action: poisoned and error.type: host_not_allowed", 10) {
			if e.Attempt != 1 || e.Failure.Message != "URL of the request: http://evil.example is not among the hosts that are allowed" {
				t.Errorf("poisoned %+v", e.Failure)
			}
		}
		if found := i.Search(t, "action: (paused or retry_scheduled)"); len(found) != 0 {
			t.Errorf("a message or the route waits: %+v", found)
		}
		if shown := i.Must(t, "config", "show"); !strings.Contains(shown, "{headers.callback_url}") || !strings.Contains(shown, "xxxxx{body.json.token}") {
			t.Errorf("config show has no templates: %s", shown)
		}
	})
}

// A receiver that is down delays no other, although its messages are in front of theirs.
func TestFairnessAmongReceivers(t *testing.T) {
	servertest.OnNewest(t, func(t *testing.T, p servertest.Parts) {
		works, down := servertest.NewService(t, servertest.Success), "http://"+rabbittest.FreeAddress(t)+"/"
		i := p.Install(t, "{headers.callback_url}")
		i.Rewrite(t, "timeout: 10s", fmt.Sprintf(`timeout: 10s, hosts: [%q, %q], private_networks: [127.0.0.1/32]`,
			strings.TrimSuffix(works.URL, "/"), strings.TrimSuffix(down, "/")))
		i.Rewrite(t, "    handler:", "    fairness: {key: \"{headers.callback_url}\", concurrency: 2}\n    arguments: {x-queue-type: classic}\n    handler:")
		i.Serve(t)
		channel := p.Broker.Channel(t)
		publish := func(id, url string) {
			t.Helper()
			err := channel.Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: id, Headers: amqp.Table{"callback_url": url}})
			if err != nil {
				t.Fatal(err)
			}
		}
		for n := range 20 {
			publish(fmt.Sprint("down-", n), down)
		}
		for n := range 5 {
			publish(fmt.Sprint("works-", n), works.URL)
		}
		i.Eventually(t, "action: handled", 5)
		rabbittest.Eventually(t, "messages wait for the key, without an attempt", func() bool {
			return slices.ContainsFunc(i.Search(t, "action: retry_scheduled"), func(e schemas.Event) bool {
				return e.Attempt+e.Waits == 0 && strings.Contains(e.Failure.Message, "connection refused")
			})
		})
		if found := i.Search(t, "action: (paused or poisoned)"); len(found) != 0 {
			t.Errorf("the route is paused, or a message poison: %+v", found)
		}
	})
}
