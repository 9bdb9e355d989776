package config

import "testing"

// Arguments are accepted that RabbitMQ accepts, or that a queue of another type may have already.
func TestArgumentsThatRabbitMQAccepts(t *testing.T) {
	for _, arguments := range []string{
		"{x-expires: 7776000000}", "{x-message-ttl: 315360000000}", "{x-message-ttl: 0}",
		"{x-max-priority: 5}", "{x-delivery-limit: 5}", "{x-queue-type: classic, x-max-priority: 5}",
	} {
		t.Run(arguments, func(t *testing.T) {
			if _, err := Load(Sources{Environ: []string{
				"WATERSHIP_ROUTES=[{queue: orders, arguments: " + arguments + ", handler: {http: {url: 'http://localhost:1'}}}]",
			}}); err != nil {
				t.Error(err)
			}
		})
	}
}
