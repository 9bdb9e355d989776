package compose

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/schema"
	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/config"
)

const root = "../../"

func TestComposeFileFitsTheSchema(t *testing.T) {
	if err := schema.Validate(read(t).content); err != nil {
		t.Error(err)
	}
}

func TestTheSchemaFindsMistakes(t *testing.T) {
	file := read(t)
	file.content["services"].(map[string]any)["watership"].(map[string]any)["healthchek"] = map[string]any{}
	if err := schema.Validate(file.content); err == nil || !strings.Contains(err.Error(), "healthchek") {
		t.Errorf("got %v, expected a complaint about healthchek", err)
	}
}

func TestEveryVariableExists(t *testing.T) {
	got := read(t).Variables()
	for _, name := range got {
		if !slices.Contains(config.Variables(), name) {
			t.Errorf("%s is not a variable of the configuration", name)
		}
	}
	if len(got) < 4 {
		t.Errorf("found only %v", got)
	}
}

// The variables, with their defaults for local use, make a valid configuration.
func TestVariablesAreValid(t *testing.T) {
	for name, service := range read(t).services {
		var environ []string
		for variable, value := range service.Environment {
			if variable != config.FileVariable {
				environ = append(environ, variable+"="+interpolate(value))
			}
		}
		if _, err := config.Load(config.Sources{Environ: environ}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCommandsAreFound(t *testing.T) {
	want := [][]string{{"healthcheck"}, {"serve"}, {"setup", "--kibana", "http://kibana:5601"}}
	if diff := cmp.Diff(want, read(t).Commands()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestServicesAreSafe(t *testing.T) {
	pinned := regexp.MustCompile(`^[a-z]+:[0-9]+\.[0-9]+\.[0-9]+(-[a-z]+)?$`)
	file := read(t)
	for name, service := range file.services {
		if service.Image != "watership" && !pinned.MatchString(service.Image) {
			t.Errorf("%s: the version of image %s is not pinned", name, service.Image)
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
	if got := slices.Sorted(maps.Keys(file.services)); len(got) != 5 {
		t.Errorf("got services %v", got)
	}
}

func TestMountedFilesExist(t *testing.T) {
	for name, service := range read(t).services {
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(interpolate(volume), ":")
			if _, err := os.Stat(root + source); strings.HasPrefix(source, ".") && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestImageIsPinnedAndUnprivileged(t *testing.T) {
	content, err := os.ReadFile(root + "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^FROM golang:[0-9]+\.[0-9]+\.[0-9]+-[a-z]+ AS build$`,
		`(?m)^FROM scratch$`,
		`CGO_ENABLED=0`,
		`(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`,
		`(?m)^ENTRYPOINT \["` + binary + `"\]$`,
	} {
		if !regexp.MustCompile(want).Match(content) {
			t.Errorf("Dockerfile has no %s", want)
		}
	}
}

func read(t *testing.T) File {
	t.Helper()
	file, err := Read(root + "docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// interpolate puts in the defaults of ${NAME:-default}.
func interpolate(value string) string {
	return regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`).ReplaceAllString(value, "$1")
}
