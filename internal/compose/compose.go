// Package compose reads the compose file, so that tests can compare it with what
// the binary and the configuration really have.
package compose

import (
	"fmt"
	"os"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// binary is where the image has it.
const binary = "/watership"

// File is a compose file.
type File struct {
	text     string
	content  map[string]any
	services map[string]service
}

type service struct {
	Image       string            `yaml:"image"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

// Read reads the file of this name.
func Read(name string) (File, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return File{}, err
	}
	var typed struct {
		Services map[string]service `yaml:"services"`
	}
	file := File{text: string(content)}
	if err := yaml.Unmarshal(content, &file.content); err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, err)
	}
	if err := yaml.Unmarshal(content, &typed); err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, err)
	}
	file.services = typed.Services
	return file, nil
}

// Commands lists the arguments of every call of watership: as a service, and in
// health checks.
func (f File) Commands() [][]string {
	var commands [][]string
	for _, s := range f.services {
		if s.Image == "watership" {
			commands = append(commands, s.Command)
		}
		if at := slices.Index(s.Healthcheck.Test, binary); at >= 0 {
			commands = append(commands, s.Healthcheck.Test[at+1:])
		}
	}
	slices.SortFunc(commands, slices.Compare)
	return commands
}

// Variables lists the environment variables of ours that it names.
func (f File) Variables() []string {
	names := regexp.MustCompile(`WATERSHIP_[A-Z_]+`).FindAllString(f.text, -1)
	slices.Sort(names)
	return slices.Compact(names)
}
