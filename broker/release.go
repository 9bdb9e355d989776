package broker

// Release is a release of RabbitMQ whose behaviour the broker has.
type Release int

const (
	RabbitMQ43 Release = iota // RabbitMQ 4.3
	RabbitMQ40                // RabbitMQ 4.0
)

// Version returns the version of the release, such as 4.3.6, which is in the server
// properties and in the management API.
func (r Release) Version() string {
	if r == RabbitMQ40 {
		return "4.0.5"
	}
	return "4.3.6"
}
