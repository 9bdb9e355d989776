// Package transport carries Watermill messages over RabbitMQ: a message.Subscriber
// and a message.Publisher that take watermill-amqp's Config, so that a Watermill
// user swaps a constructor and keeps the configuration:
//
//	cfg := amqp.NewDurableQueueConfig("amqp://guest:guest@localhost:5672/")
//	subscriber, err := transport.NewSubscriber(cfg, nil, transport.Concurrency(8))
//	if err != nil {
//		return err
//	}
//	defer subscriber.Close()
//	messages, err := subscriber.Subscribe(ctx, "orders")
//	if err != nil {
//		return err
//	}
//	for msg := range messages {
//		msg.Ack()
//	}
//
// It retries nothing but nacked messages, and records nothing: use package pipeline for
// both.
//
// Differences from the stock transport:
//
//   - As many messages are in flight as Concurrency says, instead of one.
//   - Every header type, property and byte survives both ways, and no header can
//     stop a consumer. The whole envelope is in the message's context
//     (schemas.FromContext); with Marshaler it is in the metadata as well.
//   - Every publish is confirmed, many at a time; one that reaches no queue is an
//     error where Config.Publish.Mandatory says so.
//   - A nack puts the message back after a pause that grows, instead of at once.
//   - Connections, channels, queues and consumers come back for ever. Stopping a
//     subscription waits for its handlers and touches no other.
//
// Without effect are Config.Publish.ChannelPoolSize, ConfirmDelivery and
// Transactional (publishing is always confirmed), Config.Consume.Qos.PrefetchSize
// and Global (a channel has one consumer). Config.Consume.Exclusive has an effect on
// classic queues alone: RabbitMQ accepts several exclusive consumers of a quorum queue.
// There, x-single-active-consumer in Config.Queue.Arguments lets one consumer at a time
// receive messages.
package transport
