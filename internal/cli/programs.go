package cli

import (
	"context"

	"github.com/watershipmq/watership/replayer/transform"
)

type programsKey struct{}

// ContextWithPrograms returns the context for a Run whose replays run their programs in
// processes. Without it they run in this process, without a limit of memory.
func ContextWithPrograms(ctx context.Context, programs *transform.Processes) context.Context {
	return context.WithValue(ctx, programsKey{}, programs)
}

func programsOf(ctx context.Context) *transform.Processes {
	programs, _ := ctx.Value(programsKey{}).(*transform.Processes)
	return programs
}
