package broker

// Release is a release of RabbitMQ whose behaviour the broker has. A later value is an older release.
type Release int

const (
	RabbitMQ43  Release = iota // RabbitMQ 4.3
	RabbitMQ40                 // RabbitMQ 4.0
	RabbitMQ310                // RabbitMQ 3.10
)

// Version returns the version of the release, such as 4.3.6, which is in the server
// properties and in the management API.
func (r Release) Version() string {
	switch r {
	case RabbitMQ310:
		return "3.10.8"
	case RabbitMQ40:
		return "4.0.5"
	}
	return "4.3.6"
}

func (r Release) isBefore43() bool { return r >= RabbitMQ40 }
func (r Release) isBefore40() bool { return r >= RabbitMQ310 }
