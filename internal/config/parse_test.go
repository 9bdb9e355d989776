package config

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestValues(t *testing.T) {
	for _, test := range []struct {
		key, value, problem string // problem is part of the message; empty: accepted
	}{
		{"amqp.url", "amqp://host", ""},
		{"amqp.url", "http://host", "scheme amqp or amqps"},
		{"amqp.url", "amqp:///vhost", "expected a URL"},
		{"amqp.url", "amqp://host:70000", "port from 1 to 65535"},
		{"amqp.url", "amqp://a:b#c@host", "%XX"},
		{"amqp.url", "amqp://host/#", ""},
		{"amqp.url", "amqp://host/#x", "%23"},
		{"amqp.url", "embedded://", ""},
		{"amqp.url", "embedded://localhost", "nothing behind it"},
		{"amqp.listen", "127.0.0.1:0", "unless amqp.url is embedded://"},
		{"store.url", "sqlite:a/b.db", ""},
		{"store.url", "sqlite:", "the path of a file"},
		{"store.url", "sqlite://a.db", "the path of a file"},
		{"store.url", "a.db", "or sqlite:PATH"},
		{"data", "", "1 to 4096 bytes"},
		{"store.stream", "shop", ""},
		{"store.stream", "Shop", "lower-case"},
		{"store.stream", "logs-shop", "does not begin with logs-"},
		{"store.retention.traffic", "0", ""},
		{"store.retention.traffic", "30d", ""},
		{"store.retention.traffic", "30m", "at least 1h"},
		{"store.retention.traffic", "99999999999d", "at least 1h"},
		{"topology.prefix", "amq.x", "without amq."},
		{"topology.prefix", "amq", "and not amq"},
		{"topology.prefix", "a b", "letters"},
		{"index.batch.events", "0", "from 1 to 100000"},
		{"index.batch.events", "1.5", "whole number"},
		{"index.batch.bytes", "64KiB", ""},
		{"index.batch.bytes", "1 MB", ""},
		{"index.batch.bytes", "65535", "from 64KiB to 100MiB"},
		{"index.batch.bytes", "1TiB", "from 64KiB to 100MiB"},
		{"index.batch.wait", "2h", "from 1ms to 1m"},
		{"index.labels", "a.b,a_b", "each label once"},
		{"index.labels", labels(500), ""},
		{"index.numeric_labels", labels(501), "at most 500 labels"},
		{"index.body.text", "yes", "true or false"},
		{"http.listen", "", ""},
		{"http.listen", "[::1]:0", ""},
		{"http.listen", "8181", "host:port"},
		{"http.listen", "localhost:http", "host:port"},
		{"log.level", "WARN", "debug, info, warn or error"},
		{"retry.default", "fast", "a policy of retry.policies: default"},
		{"tap.exchanges", "[{name: amq.topic, type: topic}]", ""},
		{"tap.exchanges", "[{name: amq.rabbitmq.trace, type: topic}]", "Watership's deliveries"},
		{"tap.exchanges", "[{type: topic}]", "the name of an exchange"},
		{"routes", "[{queue: a, bind: [{exchange: watership.events}], handler: {http: {url: 'http://h'}}}]", "not Watership's"},
		{"routes", "[{queue: '" + strings.Repeat("a", 256) + "'}]", "1 to 255 bytes"},
		{"retry.policies", "{a: {delays: [4294967295ms]}}", ""},
		{"retry.policies", "{a: {delays: [4294967296ms]}}", "4294967295ms"},
		{"retry.policies", "{a: {delays: [0s]}}", "from 1ms"},
		{"retry.policies", "{a: {delays: [1.5ms]}}", "whole milliseconds"},
	} {
		_, err := Load(Sources{Serve: true, Flags: map[string]string{test.key: test.value}})
		switch {
		case test.problem == "" && err != nil:
			t.Errorf("%s: %v", test.value, err)
		case test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)):
			t.Errorf("%s = %s: got %v, want %q", test.key, test.value, err, test.problem)
		}
	}
}

// labels are so many, as in a flag.
func labels(many int) string {
	names := make([]string, many)
	for n := range names {
		names[n] = fmt.Sprint("header", n)
	}
	return strings.Join(names, ",")
}

func TestBoundsAreInclusive(t *testing.T) {
	accept := func(what, s string, err error) {
		if err != nil {
			t.Errorf("%s refuses %s: %v", what, s, err)
		}
	}
	reject := func(what, s string, err error) {
		if err == nil {
			t.Errorf("%s accepts %s", what, s)
		}
	}
	for _, s := range []string{"1", "10"} {
		_, err := wholeNumber(1, 10)(s)
		accept("a whole number from 1 to 10", s, err)
		_, err = number(1, 10)(s)
		accept("a number from 1 to 10", s, err)
		_, err = duration(time.Second, 10*time.Second)(s + "s")
		accept("a duration from 1s to 10s", s+"s", err)
		_, err = size(1, 10)(s)
		accept("a size from 1 to 10", s, err)
		_, err = boundedText(1, 10)("0123456789"[:len(s)])
		accept("text of 1 to 10 bytes", s, err)
	}
	for _, s := range []string{"0", "11", "-5", "", "x", "9223372036854775808"} {
		_, err := wholeNumber(1, 10)(s)
		reject("a whole number from 1 to 10", s, err)
		_, err = number(1, 10)(s)
		reject("a number from 1 to 10", s, err)
		_, err = duration(time.Second, 10*time.Second)(s + "s")
		reject("a duration from 1s to 10s", s+"s", err)
		_, err = size(1, 10)(s)
		reject("a size from 1 to 10", s, err)
	}
	for _, s := range []string{"NaN", "Inf", "-Inf", "10.0000001", "0.9999999"} {
		_, err := number(1, 10)(s)
		reject("a number from 1 to 10", s, err)
	}
	for _, s := range []string{"", "01234567890", "\xff", "a\x00b"} {
		_, err := boundedText(1, 10)(s)
		reject("text of 1 to 10 bytes", s, err)
	}
}

// Text is measured in bytes, as AMQP's short strings are.
func TestNamesAreMeasuredInBytes(t *testing.T) {
	if _, err := boundedText(1, 4)("äö"); err != nil {
		t.Error(err)
	}
	if _, err := boundedText(1, 4)("äöü"); err == nil {
		t.Error("six bytes are accepted as four")
	}
}

func TestCountOrNone(t *testing.T) {
	for text, want := range map[string]int{"0": -1, "1": 1, "9": 9} {
		if got, err := countOrOff(9)(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"-1", "10", "none", ""} {
		if got, err := countOrOff(9)(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

func TestRetention(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1h": time.Hour, "90m": 90 * time.Minute, "3601s": 3601 * time.Second, "36500d": 36500 * day,
	} {
		if got, err := retentionPeriod(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "30", "59m59s", "-1h", "-1d", "36501d", "1h0.5s", "forever"} {
		if got, err := retentionPeriod(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
	if math.MaxInt64/int64(day) < 36500 {
		t.Error("the longest retention does not fit into a duration")
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{
		"amqp.ulr": "amqp.url", "store.uri": "store.url", "loglevel": "log.level", "": "amqp.url", "LOG.LEVEL": "log.level",
	} {
		if got := nearest(word, []string{"amqp.url", "store.url", "log.level"}); got != want {
			t.Errorf("nearest to %q is %s, want %s", word, got, want)
		}
	}
}
