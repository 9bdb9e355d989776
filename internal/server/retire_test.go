package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// Messages wait when topology.prefix is changed. setup says so, and moves them.
func TestRetiredPrefix(t *testing.T) {
	servertest.OnNewest(t, func(t *testing.T, p servertest.Parts) {
		service := servertest.NewService(t, func(p servertest.Post, _ int) int {
			if p.Attempt == "1" {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		p.Broker = p.Broker.VHost(t)
		i := p.Install(t, service.URL)
		i.Configure(t, "{delays: [100ms, 300ms]}", "{delays: [1h]}")
		serve := i.Serve(t)
		former := schemas.Topology{Prefix: i.Prefix}
		channel := p.Broker.Channel(t)
		foreign := i.Prefix + "-foreign"
		if _, err := channel.QueueDeclare(foreign, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": former.Retry()}); err != nil {
			t.Fatal(err)
		}
		order := servertest.WriteFile(t, "order.json", `{"order": 1}`)
		i.Must(t, "publish", "--exchange", i.Exchange, "--key", "order.created", "--count", "3", order)
		i.Eventually(t, "action: retry_scheduled", 3)
		i.Must(t, "routes", "pause", i.Queue, "--reason", "a migration")
		i.Eventually(t, "action: paused", 1)
		i.Prefix += "2"
		i.Configure(t, "prefix: "+former.Prefix, "prefix: "+i.Prefix)
		servertest.WantRun(t, i.Run(t, "setup", "--retire", former.Prefix), 2, "stop the processes")
		if _, err := p.Broker.Channel(t).QueueDeclarePassive(schemas.Topology{Prefix: i.Prefix}.Index(), true, false, false, false, nil); err == nil {
			t.Error("a refused setup declared the topology")
		}
		i.Configure(t, "prefix: "+i.Prefix, "prefix: "+former.Prefix)
		i.Prefix = former.Prefix
		serve.Stop(t)

		i.Must(t, "publish", "--exchange", i.Exchange, "--key", "order.created", order) // into the former index queue
		i.Must(t, "publish", "--exchange", "", "--key", foreign, order)
		servertest.Until(t, "the message is in the queue of another program", func() bool {
			d, there, err := channel.Get(foreign, false)
			return err == nil && there && d.Reject(false) == nil
		})
		servertest.Until(t, "the dead letter waits", func() bool { return p.Broker.Len(t, former.Retry()) == 1 })

		i.Prefix += "2"
		t.Cleanup(func() { i.Remove(t) })
		i.Configure(t, "prefix: "+former.Prefix, "prefix: "+i.Prefix)
		if out := i.Must(t, "setup"); !strings.Contains(out, "setup --retire "+former.Prefix) {
			t.Errorf("setup does not name the former prefix: %s", out)
		}
		list, _ := i.Findings(t)
		servertest.WantFinding(t, list, doctor.Warning, "watership setup --retire "+former.Prefix, "leftovers: no process uses topology.prefix "+former.Prefix)
		out := i.Must(t, "setup", "--retire", former.Prefix)
		if !strings.Contains(out, former.Retry()+" stays") || !strings.Contains(out, foreign) {
			t.Errorf("the queue that still dead-letters to the former prefix is not named: %s", out)
		}
		wantFormer(t, i, former, former.Retry())

		i.Serve(t)
		i.Eventually(t, "action: published", 4)
		i.Eventually(t, "action: rescheduled", 4) // an event for each message that was moved
		i.Eventually(t, "action: retry_scheduled and not event.sequence: 0", 4)
		var wait []waiting.WaitingMessage
		servertest.Until(t, "four messages to wait", func() bool {
			wait = nil
			return json.Unmarshal([]byte(i.Must(t, "waiting", "--each", "-o", "json")), &wait) == nil && len(wait) == 4
		})
		for _, m := range wait {
			if m.Attempt != 1 || time.Until(m.Due) > time.Hour || time.Until(m.Due) < 50*time.Minute {
				t.Errorf("%+v waits until %s", m, m.Due)
			}
		}
		if got := i.Run(t, "routes"); !strings.Contains(got.Out, "paused") {
			t.Errorf("the pause is gone: %+v", got)
		}
		i.Must(t, "routes", "resume", i.Queue)
		i.Eventually(t, "action: retry_scheduled", 5) // the message that was published last
		i.Must(t, "waiting", "now", "queue: "+i.Queue, "--reason", "the prefix was changed", "--yes")
		for _, e := range i.Eventually(t, "action: handled", 4) {
			if e.Attempt != 2 {
				t.Errorf("%+v", e)
			}
		}
		if _, err := channel.QueueDelete(foreign, false, false, false); err != nil {
			t.Fatal(err)
		}
		i.Must(t, "setup", "--retire", former.Prefix)
		wantFormer(t, i, former)
		servertest.WantRun(t, i.Run(t, "setup", "--retire", former.Prefix), 2, "no queue")
		servertest.WantRun(t, i.Run(t, "setup", "--retire", i.Prefix), 2, "the one of the configuration")
	})
}

// wantFormer wants only these queues of a former prefix.
func wantFormer(t *testing.T, i *servertest.Installation, former schemas.Topology, want ...string) {
	t.Helper()
	management, err := rabbit.NewManagement(i.Broker.ManagementURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := management.Queues(t.Context(), i.Broker.VHostName(t))
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, q := range queues {
		if former.Owns(q.Name) {
			left = append(left, q.Name)
		}
	}
	if strings.Join(left, " ") != strings.Join(want, " ") {
		t.Errorf("queues of the former prefix: %v, want %v", left, want)
	}
}

// An exchange that is taken out of the configuration is recorded until setup ends that.
func TestUntap(t *testing.T) {
	servertest.OnEither(t, func(t *testing.T, p servertest.Parts) {
		p.Broker = p.Broker.VHost(t)
		i := p.Install(t, servertest.Nobody)
		channel := p.Broker.Channel(t)
		tap := schemas.Topology{Prefix: i.Prefix}.Tap()
		for _, name := range []string{i.Prefix + "-private", i.Prefix + "-headers"} {
			kind, args := "topic", amqp.Table(nil)
			if strings.HasSuffix(name, "headers") {
				kind, args = "headers", amqp.Table{"x-match": "all"}
			}
			if err := channel.ExchangeDeclare(name, kind, true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			i.Must(t, "setup")
			if err := channel.ExchangeBind(tap, "#", name, false, args); err != nil {
				t.Fatal(err)
			}
			list, _ := i.Findings(t)
			servertest.WantFinding(t, list, doctor.Warning, "watership setup --untap "+name, "leftovers: exchange "+name+" is tapped")
			if out := i.Must(t, "setup", "--untap", name); !strings.Contains(out, name+" is tapped no more") {
				t.Error(out)
			}
			list, _ = i.Findings(t)
			servertest.WantFinding(t, list, doctor.OK, "", "leftovers")
			servertest.WantRun(t, i.Run(t, "setup", "--untap", name), 2, name)
		}
		servertest.WantRun(t, i.Run(t, "setup", "--untap", i.Exchange), 2, i.Exchange)
	})
}
