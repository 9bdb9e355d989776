package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
)

// actionFlags are the flags of a command that finds and changes many.
func actionFlags() []string {
	return []string{"dry-run", "expect", "ids", "operator", "output", "reason", "yes"}
}

// fewerFlags are the commands that change something and have not all flags of actions: those that they have, and why
// no more.
func fewerFlags() map[string]struct{ has, why string } {
	return map[string]struct{ has, why string }{
		"routes add":              {"dry-run expect operator output reason yes", "it names a queue"},
		"routes remove":           {"dry-run expect operator output reason yes", "it names a queue"},
		"routes pause":            {"dry-run expect operator output reason", "it names a queue, and resume undoes it, so that it does not ask"},
		"routes resume":           {"dry-run expect operator output reason", "it names a queue, and pause undoes it, so that it does not ask"},
		"receivers hold":          {"dry-run expect operator output reason", "it names a receiver, and release undoes it, so that it does not ask"},
		"receivers release":       {"dry-run expect operator output reason", "it names a receiver, and hold undoes it, so that it does not ask"},
		"erase":                   {"dry-run expect operator output reason yes", "it names one person"},
		"adopt":                   {"dry-run expect operator output reason yes", "it takes in a queue"},
		"failed edit":             {"operator reason yes", "it sends one message, which its editor shows"},
		"failed assign":           {"reason", "it is about one group, and can be undone"},
		"failed unassign":         {"reason", "it is about one group, and can be undone"},
		"failed mute":             {"reason", "it is about one group, and can be undone"},
		"failed unmute":           {"reason", "it is about one group, and can be undone"},
		"failed note":             {"", "it is about one group, and its text is the reason"},
		"jobs cancel":             {"reason", "it is about one job"},
		"jobs resume":             {"expect yes", "it is about one job, whose plan, operator and reason it has"},
		"subscriptions delete":    {"dry-run operator output reason yes", "it is about one subscription"},
		"subscriptions pause":     {"reason", "it is about one subscription, and can be undone"},
		"subscriptions resume":    {"", "it is about one subscription, and can be undone"},
		"subscriptions rewind":    {"", "it is about one subscription, and can be undone"},
		"subscriptions configure": {"", "it is about one subscription, and can be undone"},
		"subscriptions parked":    {"output yes", "it names positions, and lists them without --retry and --drop"},
		"searches save":           {"", "it is about one saved search"},
		"searches rename":         {"", "it is about one saved search"},
		"searches delete":         {"", "it is about one saved search"},
		"token create":            {"", "it changes a file"},
		"token revoke":            {"", "it changes a file"},
		"publish":                 {"", "it adds messages"},
		"import":                  {"", "it adds messages"},
		"subscribe":               {"", "it creates one subscription"},
		"setup":                   {"", "it adds what is missing"},
		"reload":                  {"output", "it reads a file"},
		"approvals approve":       {"reason", "its plan has the number"},
		"approvals refuse":        {"reason", "it changes nothing"},
		"mcp":                     {"", "its agent plans each action"},
		"alerts test":             {"", "it sends a text to receivers"},
		"show":                    {"reason", "it reads, and the reason is for an original"},
		"export":                  {"reason", "it reads, and the reason is for originals"},
	}
}

// readers are the commands that change nothing, or run a process.
func readers() string {
	return `approvals list, config check, config show, dev, doctor, explain, failed show, failed why, healthcheck, help, jobs list, jobs show, licenses, man, map,
		quarantine list, receivers show, redact hash, redact try, search, searches list, serve, shop, subject, subscriptions list, subscriptions show, tail, times, token list, validate, version,
		completion bash, completion fish, completion powershell, completion zsh`
}

// Each command that finds and changes many has the flags of all others, or a reason why not.
func TestActionsHaveTheSameFlags(t *testing.T) {
	fewer, all, known := fewerFlags(), strings.Join(actionFlags(), " "), map[string]bool{}
	reading := strings.Split(strings.Join(strings.Fields(readers()), " "), ", ")
	actions := 0
	for _, cmd := range commandsBelow(newRoot(terminal.Streams{}, nil)) {
		name := strings.TrimPrefix(cmd.CommandPath(), "watership ")
		known[name] = true
		has := strings.Join(slices.DeleteFunc(actionFlags(), func(flag string) bool { return cmd.Flags().Lookup(flag) == nil }), " ")
		listed, isListed := fewer[name]
		switch {
		case slices.Contains(reading, name):
			if strings.Contains(has, "reason") || strings.Contains(has, "yes") {
				t.Errorf("%s is listed as a command that changes nothing, and has the flags %s", name, has)
			}
		case isListed && has != listed.has:
			t.Errorf("%s has the flags %q, and is listed with %q", name, has, listed.has)
		case !isListed && has != all:
			t.Errorf("%s has the flags %q of %q: add the others, or list it with the reason", name, has, all)
		case !isListed:
			actions++
		}
	}
	if actions < 8 { // replay, failed retry, discard and resolve, waiting now, postpone and cancel, quarantine rewrite
		t.Errorf("%d commands have all flags of actions", actions)
	}
	for name := range fewer {
		reading = append(reading, name)
	}
	for _, name := range reading {
		if !known[name] {
			t.Errorf("there is no command %s, which is listed", name)
		}
	}
}

// commandsBelow returns the commands below one that have no others below them. A command that has them lists its
// subject, or prints help. Topics of help are no commands.
func commandsBelow(cmd *cobra.Command) (list []*cobra.Command) {
	for _, child := range cmd.Commands() {
		switch {
		case child.HasSubCommands():
			list = append(list, commandsBelow(child)...)
		case child.Runnable():
			list = append(list, child)
		}
	}
	return list
}
