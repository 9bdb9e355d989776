package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/system"
)

func newMCP(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Give an agent the tools of a running server, on standard input and output",
		Long: `Serve the Model Context Protocol on standard input and output, for an agent that starts this
command. Its tools are those of the server of --server, with the role of the token: a viewer's
has none that acts. Each action needs the number of a plan that was made before, and each
call is recorded with the name of the agent.

An agent that can use HTTP needs no such command: it sends the token to /api/v1/mcp itself.
"watership help agents" says what an agent may do, and how messages that try to instruct it
are kept apart.`,
		Example: "  watership mcp --server https://watership.example.com --token-file token",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				server, is := sys.(*client.Client)
				if !is {
					return usagef("mcp has the tools of a running serve or dev: give --server")
				}
				return serveTools(ctx, server.Agents(), streamsOf(cmd))
			})
		},
	}
}

// serveTools serves the tools of a server until the input, the session with the server or ctx ends,
// which ends the calls that run. Each call has the name of the agent.
func serveTools(ctx context.Context, of mcp.Transport, t terminal.Streams) (err error) {
	self := &mcp.Implementation{Name: "watership mcp", Version: system.Version()}
	session, err := mcp.NewClient(self, nil).Connect(ctx, of, nil)
	if err != nil {
		return fmt.Errorf("asking the server for its tools: %w", err)
	}
	until, end := context.WithCancelCause(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		end(fmt.Errorf("the session with the server has ended: %w", cmp.Or(session.Wait(), io.EOF)))
	})
	defer func() {
		if closed := session.Close(); err == nil {
			err = closed
		}
		waiting.Wait()
	}()
	began := session.InitializeResult()
	local := mcp.NewServer(began.ServerInfo, &mcp.ServerOptions{
		Instructions: began.Instructions, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("asking the server for its tools: %w", err)
		}
		local.AddTool(tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			ctx, cancel := context.WithCancel(ctx) // the library ends it with the agent alone
			defer cancel()
			defer context.AfterFunc(until, cancel)()
			call := &mcp.CallToolParams{Name: req.Params.Name, Arguments: req.Params.Arguments, Meta: mcp.Meta{}}
			if agent := req.ClientInfo(); agent != nil {
				call.Meta[mcp.MetaKeyClientInfo] = agent
			}
			return session.CallTool(ctx, call)
		})
	}
	err = local.Run(until, &mcp.IOTransport{Reader: io.NopCloser(t.In), Writer: unclosed{t.Out}})
	switch {
	case until.Err() != nil:
		return context.Cause(until)
	case errors.Is(err, io.EOF):
		return nil // the agent has ended
	}
	return err
}

// unclosed is an output that stays open.
type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }
