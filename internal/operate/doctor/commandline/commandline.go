// Package commandline has commands of watership as values, for remedies: the faces write them as
// lines for a shell, and the API returns them with their parts.
package commandline

import (
	"strings"

	"github.com/watershipmq/watership/internal/render/wording"
)

// Command is a command of watership.
type Command struct {
	Name      string   `json:"name" doc:"Such as routes resume"`
	Arguments []string `json:"arguments,omitempty" nullable:"false"`
	Flags     []Flag   `json:"flags,omitempty" nullable:"false"`
}

// Flag is a flag of a command.
type Flag struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty" doc:"None: the flag stands alone"`
}

// New returns a command without flags.
func New(name string, arguments ...string) *Command {
	return &Command{Name: name, Arguments: arguments}
}

// With returns the command with another flag.
func (c Command) With(name, value string) *Command {
	c.Flags = append(c.Flags[:len(c.Flags):len(c.Flags)], Flag{name, value})
	return &c
}

// String returns the line for a shell.
func (c Command) String() string {
	words := []string{"watership", c.Name}
	for _, argument := range c.Arguments {
		words = append(words, wording.Quoted(argument))
	}
	for _, flag := range c.Flags {
		words = append(words, "--"+flag.Name)
		if flag.Value != "" {
			words = append(words, wording.Quoted(flag.Value))
		}
	}
	return strings.Join(words, " ")
}
