package rabbit

import "testing"

// RabbitMQ 3.10, 4.0 and 4.3 apply no policy with one of these keys to a stream.
func TestPoliciesThatAreForNoStream(t *testing.T) {
	for key, want := range map[string]bool{
		"dead-letter-exchange": false, "message-ttl": false, "expires": false, "max-length": false, "overflow": false, "delivery-limit": false,
		"queue-mode": false, "max-length-bytes": true, "max-age": true, "queue-leader-locator": true,
	} {
		p := Policy{Pattern: "^log", ApplyTo: "all", Definition: policyDefinition{key: 1}}
		if applies, err := p.AppliesTo("log", "stream"); applies != want || err != nil {
			t.Errorf("%s: %t, %v", key, applies, err)
		}
	}
}
