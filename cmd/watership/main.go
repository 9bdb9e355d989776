// Command watership records every message of a RabbitMQ system in
// Elasticsearch, retries what fails, sets aside what cannot succeed, and
// replays any of it to where it came from.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Args[1:], os.Environ())
	stop()
	os.Exit(code)
}
