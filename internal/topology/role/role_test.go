package role

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/schemas"
)

func TestTagAnnouncesTheProcess(t *testing.T) {
	for _, c := range []Consumer{
		NewConsumer(Retry, "0a1b2c"),
		NewConsumer(Due, ""),
		{Role: Index, Process: "a.example:1"},
	} {
		parsed, ok := ParseTag(c.Tag())
		if !ok || parsed != c {
			t.Errorf("%q: %+v, %t; expected %+v", c.Tag(), parsed, ok, c)
		}
	}
}

func TestTagOfAResumedConsumer(t *testing.T) {
	c := NewConsumer(Retry, "0a1b2c")
	if parsed, ok := ParseTag(c.Tag() + "-3"); !ok || parsed != c {
		t.Errorf("%+v, %t; expected %+v", parsed, ok, c)
	}
}

func TestTagFitsAMQP(t *testing.T) {
	c := Consumer{Role: Poison, Process: strings.Repeat("h/", 300) + ":4711", Policies: "0a1b2c"}
	tag := c.Tag()
	parsed, ok := ParseTag(tag)
	if len(tag) > 255 || !ok || !strings.HasSuffix(parsed.Process, ":4711") || parsed.Policies != c.Policies {
		t.Errorf("%d bytes: %q, parsed %t", len(tag), tag, ok)
	}
}

func TestOtherTagsAreNoProcess(t *testing.T) {
	for _, tag := range []string{"", "ctag1.0", "watership-ABC", "watership/boss/host:1/", "watership/retry/host:1", "a/retry/host:1/", "watership/retry/a/b/c"} {
		if c, ok := ParseTag(tag); ok {
			t.Errorf("%q is %+v", tag, c)
		}
	}
}

func TestEachQueueHasOneRole(t *testing.T) {
	var topology schemas.Topology
	owners := map[string]Role{}
	for _, r := range All() {
		for _, queue := range r.Queues(topology) {
			if other, taken := owners[queue]; taken {
				t.Errorf("%s is of %s and of %s", queue, other, r)
			}
			owners[queue] = r
		}
	}
	for _, queue := range topology.Queues() {
		if _, taken := owners[queue]; !taken && queue != topology.Unstorable() && queue != topology.Paused() {
			t.Errorf("%s has no role", queue)
		}
	}
}
