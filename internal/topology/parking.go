package topology

// ParkingQueue returns the name of the queue for copies of the messages that a queue's
// route has given up.
func ParkingQueue(queue string) string { return queue + ".poison" }
