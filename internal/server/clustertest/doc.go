// Package clustertest tests three processes of serve on clusters of RabbitMQ and Elasticsearch, with
// faults of their nodes and networks, in the laboratory of scripts/cluster (make cluster). Everything is
// in tests: they publish, are the service that the handlers call, and compare what both know of each
// message with the store.
package clustertest
