package cli

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
	"github.com/watershipmq/watership/schemas"
)

// Messages wait when topology.prefix is changed. setup says so, and moves them.
func TestRetiredPrefix(t *testing.T) {
	onNewest(t, func(t *testing.T, p parts) {
		service := newService(t, func(p post, _ int) int {
			if p.attempt == "1" {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		p.broker = p.broker.VHost(t)
		i := p.install(t, service.url)
		i.configure(t, "{delays: [100ms, 300ms]}", "{delays: [1h]}")
		serve := i.serve(t)
		former := schemas.Topology{Prefix: i.prefix}
		channel := p.broker.Channel(t)
		foreign := i.prefix + "-foreign"
		if _, err := channel.QueueDeclare(foreign, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": former.Retry()}); err != nil {
			t.Fatal(err)
		}
		order := writeFile(t, "order.json", `{"order": 1}`)
		i.must(t, "publish", "--exchange", i.exchange, "--key", "order.created", "--count", "3", order)
		i.eventually(t, "action: retry_scheduled", 3)
		i.must(t, "routes", "pause", i.queue, "--reason", "a migration")
		i.eventually(t, "action: paused", 1)
		i.prefix += "2"
		i.configure(t, "prefix: "+former.Prefix, "prefix: "+i.prefix)
		wantRun(t, i.run(t, "setup", "--retire", former.Prefix), exitUsage, "stop the processes")
		if _, err := p.broker.Channel(t).QueueDeclarePassive(schemas.Topology{Prefix: i.prefix}.Index(), true, false, false, false, nil); err == nil {
			t.Error("a refused setup declared the topology")
		}
		i.configure(t, "prefix: "+i.prefix, "prefix: "+former.Prefix)
		i.prefix = former.Prefix
		serve.stop(t)

		i.must(t, "publish", "--exchange", i.exchange, "--key", "order.created", order) // into the former index queue
		i.must(t, "publish", "--exchange", "", "--key", foreign, order)
		until(t, "the message is in the queue of another program", func() bool {
			d, there, err := channel.Get(foreign, false)
			return err == nil && there && d.Reject(false) == nil
		})
		until(t, "the dead letter waits", func() bool { return p.broker.Len(t, former.Retry()) == 1 })

		i.prefix += "2"
		t.Cleanup(func() { i.remove(t) })
		i.configure(t, "prefix: "+former.Prefix, "prefix: "+i.prefix)
		if out := i.must(t, "setup"); !strings.Contains(out, "setup --retire "+former.Prefix) {
			t.Errorf("setup does not name the former prefix: %s", out)
		}
		list, _ := i.findings(t)
		wantFinding(t, list, doctor.Warning, "watership setup --retire "+former.Prefix, "leftovers: no process uses topology.prefix "+former.Prefix)
		out := i.must(t, "setup", "--retire", former.Prefix)
		if !strings.Contains(out, former.Retry()+" stays") || !strings.Contains(out, foreign) {
			t.Errorf("the queue that still dead-letters to the former prefix is not named: %s", out)
		}
		wantFormer(t, i, former, former.Retry())

		i.serve(t)
		i.eventually(t, "action: published", 4)
		i.eventually(t, "action: rescheduled", 4) // an event for each message that was moved
		i.eventually(t, "action: retry_scheduled and not event.sequence: 0", 4)
		var wait []waiting.WaitingMessage
		until(t, "four messages to wait", func() bool {
			wait = nil
			return json.Unmarshal([]byte(i.must(t, "waiting", "--each", "-o", "json")), &wait) == nil && len(wait) == 4
		})
		for _, m := range wait {
			if m.Attempt != 1 || time.Until(m.Due) > time.Hour || time.Until(m.Due) < 50*time.Minute {
				t.Errorf("%+v waits until %s", m, m.Due)
			}
		}
		if got := i.run(t, "routes"); !strings.Contains(got.out, "paused") {
			t.Errorf("the pause is gone: %+v", got)
		}
		i.must(t, "routes", "resume", i.queue)
		i.eventually(t, "action: retry_scheduled", 5) // the message that was published last
		i.must(t, "waiting", "now", "queue: "+i.queue, "--reason", "the prefix was changed", "--yes")
		for _, e := range i.eventually(t, "action: handled", 4) {
			if e.Attempt != 2 {
				t.Errorf("%+v", e)
			}
		}
		if _, err := channel.QueueDelete(foreign, false, false, false); err != nil {
			t.Fatal(err)
		}
		i.must(t, "setup", "--retire", former.Prefix)
		wantFormer(t, i, former)
		wantRun(t, i.run(t, "setup", "--retire", former.Prefix), exitUsage, "no queue")
		wantRun(t, i.run(t, "setup", "--retire", i.prefix), exitUsage, "the one of the configuration")
	})
}

// wantFormer wants only these queues of a former prefix.
func wantFormer(t *testing.T, i *installation, former schemas.Topology, want ...string) {
	t.Helper()
	management, err := rabbit.NewManagement(i.broker.ManagementURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := management.Queues(t.Context(), i.broker.VHostName(t))
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
	onBoth(t, func(t *testing.T, p parts) {
		p.broker = p.broker.VHost(t)
		i := p.install(t, nobody)
		channel := p.broker.Channel(t)
		tap := schemas.Topology{Prefix: i.prefix}.Tap()
		for _, name := range []string{i.prefix + "-private", i.prefix + "-headers"} {
			kind, args := "topic", amqp.Table(nil)
			if strings.HasSuffix(name, "headers") {
				kind, args = "headers", amqp.Table{"x-match": "all"}
			}
			if err := channel.ExchangeDeclare(name, kind, true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			i.must(t, "setup")
			if err := channel.ExchangeBind(tap, "#", name, false, args); err != nil {
				t.Fatal(err)
			}
			list, _ := i.findings(t)
			wantFinding(t, list, doctor.Warning, "watership setup --untap "+name, "leftovers: exchange "+name+" is tapped")
			if out := i.must(t, "setup", "--untap", name); !strings.Contains(out, name+" is tapped no more") {
				t.Error(out)
			}
			list, _ = i.findings(t)
			wantFinding(t, list, doctor.OK, "", "leftovers")
			wantRun(t, i.run(t, "setup", "--untap", name), exitUsage, name)
		}
		wantRun(t, i.run(t, "setup", "--untap", i.exchange), exitUsage, i.exchange)
	})
}
