package cli

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// TestSoakDevelopmentMemory publishes 2,000 messages of 1 KiB a second to dev for ten minutes.
// The store takes them as they come, and the memory of the process stays at the level
// that it has after two minutes.
func TestSoakDevelopmentMemory(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	const (
		rate    = 2000 // messages a second
		seconds = 600
		warm    = 120      // seconds, in which caches fill
		limit   = 256      // MiB
		backlog = 5 * rate // messages that may wait for the store
	)
	d := develop(t, []string{"WATERSHIP_TAP_EXCHANGES=[{name: amq.topic, type: topic}]"}, "--empty")
	d.says(t, "Try, in a second terminal")
	load := &steadyLoad{development: d, publisher: d.publisher(t), bodies: servertest.TrafficBodies(1 << 10), began: time.Now()}
	var resident []int // MiB, by the second
	for second := range seconds {
		load.publish(t, second*rate, rate)
		resident = append(resident, d.resident(t)>>20)
		if waiting := load.sent - d.stored(t); waiting > backlog {
			t.Errorf("after %d s %d messages wait for the store", second, waiting)
		}
		if second%30 == 29 {
			t.Logf("%d s: %d MiB, %d messages wait for the store, CPU %s", second+1, resident[second], load.sent-d.stored(t), d.cpu().Round(time.Second))
		}
	}
	if took := time.Since(load.began); took > (seconds+5)*time.Second {
		t.Errorf("dev blocked the publisher: %s, want %d s", took, seconds)
	}
	servertest.Until(t, "all messages to be in the store", func() bool {
		return strings.TrimSpace(d.must(t, d.binary+" search --count 'action: published'")) == fmt.Sprint(load.sent)
	})
	before, after := slices.Max(resident[:warm]), slices.Max(resident[warm:])
	t.Logf("at most %d MiB in the first %d s, then at most %d MiB", before, warm, after)
	if after > before+before/8 || after > limit {
		t.Errorf("the memory grows from %d to %d MiB, want at most an eighth more, and at most %d MiB", before, after, limit)
	}
}

// steadyLoad publishes messages at a fixed rate.
type steadyLoad struct {
	*development
	publisher *rabbit.Publisher
	bodies    [][]byte
	began     time.Time
	sent      int
}

// publish publishes the messages of a second, from number first on, each at its time, and waits
// for their confirms.
func (l *steadyLoad) publish(t *testing.T, first, rate int) {
	t.Helper()
	pending := make([]*rabbit.Pending, rate)
	for i := range pending {
		n := first + i
		time.Sleep(time.Until(l.began.Add(time.Duration(n) * time.Second / time.Duration(rate))))
		var err error
		pending[i], err = l.publisher.Send(t.Context(), rabbit.Message{Exchange: "amq.topic", RoutingKey: fmt.Sprint("orders.", n%20), Publishing: amqp.Publishing{
			MessageId: fmt.Sprint("m", n), ContentType: "application/json", Timestamp: time.Now(), Body: l.bodies[n%len(l.bodies)],
			Headers: amqp.Table{"tenant": fmt.Sprint("t", n%50), "attempt": int64(n % 5), "test": n%2 == 0, "trace": fmt.Sprintf("%032x", n), "region": "eu-west-1", "version": "2026-11"},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, sent := range pending {
		if err := sent.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.sent += rate
}

func (d *development) publisher(t *testing.T) *rabbit.Publisher {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: regexp.MustCompile(`amqp://\S+`).FindString(d.out.String()), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	t.Cleanup(func() { _ = publisher.Close() })
	return publisher
}

// stored returns the number of events that dev has written to its store.
func (d *development) stored(t *testing.T) (events int) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^watership_index_events_total\{action="published"\} (\S+)`).FindAllStringSubmatch(d.ask(t, "/metrics"), -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		events += int(n)
	}
	return events
}

func (d *development) cpu() time.Duration {
	return rabbittest.CPU(map[string]int{"dev": d.cmd.Process.Pid})["dev"]
}

// resident is the resident set of dev in bytes (proc_pid_statm(5)).
func (d *development) resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var total, pages int
	if _, err := fmt.Sscan(string(text), &total, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
