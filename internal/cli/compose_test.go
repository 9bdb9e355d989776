package cli

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/schema"
	"go.yaml.in/yaml/v3"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/server/servertest"
)

const repository = "../../"

// composeFile is docker-compose.yml, as text, as YAML, and the part that tests look at.
type composeFile struct {
	text     string
	content  map[string]any
	services map[string]composeService
}

type composeService struct {
	Image       string            `yaml:"image"`
	Memory      string            `yaml:"mem_limit"`
	Profiles    []string          `yaml:"profiles"`
	PullPolicy  string            `yaml:"pull_policy"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Ports       []string          `yaml:"ports"`
	Volumes     []composeVolume   `yaml:"volumes"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

// composeVolume is a mount: a bind in the long form, or a named volume in the short one.
type composeVolume struct {
	Type   string `yaml:"type"`
	Source string `yaml:"source"`
	Bind   struct {
		CreateHostPath *bool `yaml:"create_host_path"`
	} `yaml:"bind"`
}

func (v *composeVolume) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		v.Type = "volume"
		v.Source, _, _ = strings.Cut(node.Value, ":")
		return nil
	}
	type long composeVolume
	return node.Decode((*long)(v))
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	text, err := os.ReadFile(repository + "docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	file := composeFile{text: string(text)}
	var typed struct {
		Services map[string]composeService `yaml:"services"`
	}
	for _, into := range []any{&file.content, &typed} {
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	file.services = typed.Services
	return file
}

func TestComposeFileFitsTheSchema(t *testing.T) {
	file := readCompose(t)
	if err := schema.Validate(file.content); err != nil {
		t.Error(err)
	}
	file.content["services"].(map[string]any)["watership"].(map[string]any)["healthchek"] = map[string]any{}
	if err := schema.Validate(file.content); err == nil || !strings.Contains(err.Error(), "healthchek") {
		t.Errorf("got %v, expected a errorText about healthchek", err)
	}
}

// Every call of watership in the compose file is a command with these flags.
func TestComposeCommandsExist(t *testing.T) {
	var calls [][]string
	for _, service := range readCompose(t).services {
		if service.Image == "watership" {
			calls = append(calls, service.Command)
		}
		if at := slices.Index(service.Healthcheck.Test, "/watership"); at >= 0 {
			calls = append(calls, service.Healthcheck.Test[at+1:])
		}
	}
	if len(calls) != 4 {
		t.Errorf("found the calls %v, expected setup, serve, shop and healthcheck", calls)
	}
	for _, args := range calls {
		root := newRoot(terminal.Streams{In: strings.NewReader(""), Out: new(bytes.Buffer), Err: new(bytes.Buffer)}, nil)
		command, rest, err := root.Find(args)
		if err != nil || command == root {
			t.Errorf("watership %s: no such command: %v", strings.Join(args, " "), err)
		} else if err := command.ParseFlags(rest); err != nil {
			t.Errorf("watership %s: %v", strings.Join(args, " "), err)
		}
	}
}

func TestComposeVariablesExist(t *testing.T) {
	names := regexp.MustCompile(`WATERSHIP_[A-Z_]+`).FindAllString(readCompose(t).text, -1)
	names = slices.DeleteFunc(names, func(name string) bool { return name == "WATERSHIP_PORT" }) // the compose file's own
	for _, name := range names {
		if !slices.Contains(config.Variables(), name) {
			t.Errorf("%s is not a variable of the configuration", name)
		}
	}
	if len(names) < 4 {
		t.Errorf("found only %v", names)
	}
}

// The variables, with their defaults for local use, make a valid configuration.
func TestComposeVariablesAreValid(t *testing.T) {
	for name, service := range readCompose(t).services {
		var environ []string
		for variable, value := range service.Environment {
			if variable != config.FileVariable {
				environ = append(environ, variable+"="+withDefaults(value))
			}
		}
		if _, err := config.Load(config.Sources{Environ: environ}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestComposeServicesAreSafe(t *testing.T) {
	pinned := regexp.MustCompile(`^[a-z]+:[0-9]+\.[0-9]+\.[0-9]+(-[a-z]+)?@sha256:[0-9a-f]{64}$`)
	file := readCompose(t)
	for name, service := range file.services {
		switch {
		case service.Image == "watership" && service.PullPolicy != "never":
			t.Errorf("%s: its image is asked of a registry, which has none", name)
		case service.Image != "watership" && !pinned.MatchString(service.Image):
			t.Errorf("%s: image %s has no version with its digest", name, service.Image)
		}
		if service.Memory == "" {
			t.Errorf("%s: its memory has no limit", name)
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: port %s is not on loopback only", name, port)
			}
		}
		for other, on := range service.DependsOn {
			checked := len(file.services[other].Healthcheck.Test) > 0
			if on.Condition == "service_healthy" && !checked {
				t.Errorf("%s waits for the health of %s, which has no check", name, other)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(file.services)); len(got) != 6 {
		t.Errorf("got services %v", got)
	}
}

// On a disk that gets full, Elasticsearch refuses documents before RabbitMQ blocks publishers.
func TestComposeOnAFullDisk(t *testing.T) {
	services := readCompose(t).services
	var limit, stage int
	_, err := fmt.Sscanf(services["rabbitmq"].Environment["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"], "-rabbit disk_free_limit %d", &limit)
	if _, also := fmt.Sscanf(services["elasticsearch"].Environment["cluster.routing.allocation.disk.watermark.flood_stage"], "%dmb", &stage); err != nil || also != nil {
		t.Fatal(err, also)
	}
	if limit < 100e6 || stage<<20 < 2*limit {
		t.Errorf("RabbitMQ blocks below %d bytes, Elasticsearch refuses below %d MiB", limit, stage)
	}
}

// The example shop is there only if it is asked for.
func TestComposeProfiles(t *testing.T) {
	for name, service := range readCompose(t).services {
		if (len(service.Profiles) > 0) != (name == "shop") {
			t.Errorf("%s has the profiles %q", name, service.Profiles)
		}
	}
}

// shop takes the configured servers: its orders are recorded and handled there.
func TestShopOnConfiguredServers(t *testing.T) {
	t.Parallel()
	i := servertest.InstallEmbedded(t, servertest.Nobody)
	shop := exec.CommandContext(t.Context(), i.Binary, "shop", "--config", i.Config)
	shop.Env = i.Environ
	if err := shop.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shop.Wait() }) // the context of the test has ended
	servertest.Until(t, "orders to be handled", func() bool {
		return strings.Contains(i.Run(t, "search", "queue: shop.billing and action: handled", "-o", "ndjson").Out, `"handled"`) // fails while there is no store
	})
}

// A path that is not there is an error: docker would create a folder, owned by root.
func TestComposeMountsExist(t *testing.T) {
	for name, service := range readCompose(t).services {
		for _, volume := range service.Volumes {
			if volume.Type != "bind" {
				continue
			}
			if _, err := os.Stat(repository + withDefaults(volume.Source)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if create := volume.Bind.CreateHostPath; create == nil || *create {
				t.Errorf("%s: %s is created where it does not exist", name, volume.Source)
			}
		}
	}
}

func TestImageIsPinnedAndUnprivileged(t *testing.T) {
	content, err := os.ReadFile(repository + "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^FROM golang:[0-9]+\.[0-9]+\.[0-9]+-[a-z]+@sha256:[0-9a-f]{64} AS build$`,
		`(?m)^FROM scratch$`,
		`CGO_ENABLED=0`,
		`(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`,
		`(?m)^ENTRYPOINT \["/watership"\]$`,
	} {
		if !regexp.MustCompile(want).Match(content) {
			t.Errorf("Dockerfile has no %s", want)
		}
	}
}

// withDefaults puts in the defaults of ${NAME:-default}.
func withDefaults(value string) string {
	return regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`).ReplaceAllString(value, "$1")
}
