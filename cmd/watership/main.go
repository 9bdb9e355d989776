// Command watership records every message of a RabbitMQ system in
// Elasticsearch, retries what fails, sets aside what cannot succeed, and
// replays any of it to where it came from.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // for TZ where there is nothing but this file, as in our image

	"github.com/watershipmq/watership/internal/cli"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/replayer/transform"
)

func main() {
	transform.ServeProcess(signal.Ignore)
	// Without SIGPIPE, a closed pipe (`watership search | head`) is a write error, and
	// the command closes its searches in the store.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	ctx = cli.ContextWithHangups(ctx, func() <-chan os.Signal {
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		return hangups
	})
	programs := transform.NewProcesses()
	ctx = cli.ContextWithPrograms(ctx, programs)
	code := cli.Run(ctx, terminal.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:], os.Environ())
	stop()
	programs.Close()
	os.Exit(code)
}
