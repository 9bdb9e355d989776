// Package cli is the command line of watership: each command reads its flags,
// calls the part that does the work and prints the result.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2

	exitDifferent   = 3   // replay --shadow found differences, or validate messages that do not fit
	exitInterrupted = 130 // as a shell reports SIGINT
)

// usagef returns the error for a mistake of the user who typed the command.
func usagef(format string, args ...any) error {
	return system.InputError{Err: fmt.Errorf(format, args...)}
}

// Run runs one command line, without the name of the command in args, and returns
// the exit code.
func Run(ctx context.Context, t terminal.Streams, args, environ []string) int {
	root := newRoot(t, environ)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case outputClosed(err):
		return exitOK
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(t.Err, "watership: interrupted")
		return exitInterrupted
	}
	fmt.Fprint(t.Err, terminal.SafeLines(errorText(err)))
	var different differencesError
	var unfit unfitError
	if errors.As(err, &different) || errors.As(err, &unfit) {
		return exitDifferent
	}
	var usage system.InputError
	var mistakes config.Mistakes
	if errors.As(err, &usage) || errors.As(err, &mistakes) {
		return exitUsage
	}
	return exitFailed
}

// outputClosed reports whether the reader of the output closed its pipe. A server
// that closed its connection during a write does not count.
func outputClosed(err error) bool {
	var writing *fs.PathError
	return errors.As(err, &writing) && errors.Is(writing, syscall.EPIPE)
}

// errorText formats an error: each mistake of a configuration on its own line;
// further lines of other errors, such as a query with its caret, are indented below
// the first.
func errorText(err error) string {
	var mistakes config.Mistakes
	if errors.As(err, &mistakes) {
		return "watership: " + strings.ReplaceAll(err.Error(), "\n", "\nwatership: ") + "\n"
	}
	return "watership: " + strings.ReplaceAll(wordsOf(err)+pageOf(err), "\n", "\n  ") + "\n"
}

// newRoot returns the command with all its subcommands.
func newRoot(t terminal.Streams, environ []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "watership",
		Short: "Record, retry, find and replay the messages of a RabbitMQ system",
		Long: `Watership records every message of a RabbitMQ system in Elasticsearch, retries
what fails, sets aside what cannot succeed, and replays any of it to where it
came from.

In the folder of a running "watership dev", every command connects to it
automatically, and loads its configuration file unless --config names another.

With --server and --token-file, commands go through the HTTP API of a running
"watership serve", and need no login of RabbitMQ and Elasticsearch.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          rejectUnknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(t.In)
	root.SetOut(t.Out)
	root.SetErr(t.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && cmd.Args != nil { // a flag of an unknown command is unknown
			if unknown := cmd.Args(cmd, args); unknown != nil {
				return unknown
			}
		}
		return usagef("%w (see '%s --help')", flagError(err), cmd.CommandPath())
	})
	from := addSettings(root.PersistentFlags(), environ)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.ValidateRequiredFlags(); err != nil {
			return usagef("%w (see '%s --help')", err, cmd.CommandPath())
		}
		return from.refuseServer(cmd)
	}
	root.AddGroup(groups()...)
	for _, command := range []struct {
		group string
		make  func(*settings) *cobra.Command
	}{
		{groupStart, newDev},
		{groupFind, newSearch},
		{groupFind, newSearches},
		{groupFind, newShow},
		{groupFind, newStream},
		{groupFind, newExplain},
		{groupFind, newFailed},
		{groupFind, newWaiting},
		{groupFind, newTail},
		{groupFind, newExport},
		{groupFind, newSubject},
		{groupFind, newValidate},
		{groupAct, newReplay},
		{groupAct, newJobs},
		{groupAct, newSubscribe},
		{groupAct, newSubscriptions},
		{groupAct, newPublish},
		{groupAct, newImport},
		{groupAct, newAdopt},
		{groupAct, newQuarantine},
		{groupAct, newErase},
		{groupAct, newApprovals},
		{groupRun, newSetup},
		{groupRun, newServe},
		{groupRun, newExampleShop},
		{groupRun, newReload},
		{groupRun, newMCP},
		{groupRun, newHealthcheck},
		{groupRun, newToken},
		{groupCheck, newDoctor},
		{groupCheck, newRoutes},
		{groupCheck, newTimes},
		{groupCheck, newReceivers},
		{groupCheck, newMap},
		{groupCheck, newAlerts},
		{groupCheck, newRedact},
		{groupCheck, newConfig},
	} {
		made := command.make(from)
		made.GroupID = command.group
		root.AddCommand(made)
	}
	root.AddCommand(newVersion(from), newLicenses(from), newMan(from))
	addHelp(root, from)
	addCompletions(root, from)
	return root
}

// flagError says that a flag expects a number, instead of which function of Go refused it.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) || !errors.As(err, &number) {
		return err
	}
	problem := "expected a whole number"
	switch {
	case errors.Is(err, strconv.ErrRange):
		problem = "the number is too large"
	case number.Func == "ParseFloat":
		problem = "expected a number"
	case number.Func == "ParseBool":
		problem = "expected true or false"
	}
	return errors.New(strings.Replace(err.Error(), number.Error(), problem, 1))
}

func rejectUnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	names := make([]string, 0, len(cmd.Commands()))
	meant := misspelled(cmd, args)
	for _, command := range cmd.Commands() {
		if command.IsAvailableCommand() {
			names = append(names, command.Name())
		}
		for _, sub := range command.Commands() {
			if sub.Name() == args[0] && meant == "" {
				meant = sub.CommandPath()
			}
		}
	}
	if meant != "" {
		meant = fmt.Sprintf("; did you mean '%s'?", meant)
	}
	return usagef("unknown command %q: expected one of %s%s", args[0], strings.Join(names, ", "), meant)
}

// exactArgs requires n arguments; its error describes them.
func exactArgs(n int, expected string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			if meant := misspelled(cmd, args); meant != "" {
				return usagef("unknown command %q; did you mean '%s'?", args[0], meant)
			}
			return usagef("expected %s, got %s (see '%s --help')", expected, wording.Plural(len(args), "argument"), cmd.CommandPath())
		}
		for _, arg := range args {
			if strings.TrimSpace(arg) == "" {
				return usagef("expected %s, got an empty text", expected)
			}
		}
		return nil
	}
}

// optionalFile accepts one file, or none for standard input.
func optionalFile(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("expected one file, or none for standard input, got %d", len(args))
	}
	return nil
}
