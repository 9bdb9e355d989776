package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The example configuration has every key, if only as a comment, and no mistake.
func TestExampleFile(t *testing.T) {
	const file = "../../docs/watership.example.yaml"
	if _, err := Load(Sources{File: file}); err != nil {
		t.Error(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range load(t, full, nil, nil).Describe() {
		if strings.Contains(setting.Key, ".statuses.") || strings.Contains(setting.Key, ".set_headers.") {
			continue // its last part is the user's
		}
		last := regexp.MustCompile(`\[\d+\]$`).ReplaceAllString(setting.Key, "")
		last = last[strings.LastIndex(last, ".")+1:]
		if !regexp.MustCompile(`(?m)(^|[ {])` + last + `:`).Match(content) {
			t.Errorf("%s has no %s", file, setting.Key)
		}
	}
	// What is commented out holds too once it is not.
	active := regexp.MustCompile(`(?m)^( *)# ([a-z_]+: [^#\n]+)( #.*)?$`).ReplaceAll(content, []byte("$1$2"))
	t.Chdir(t.TempDir())
	write(t, "w.yaml", string(active))
	c, err := Load(Sources{File: "w.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Source != "shop" || c.HTTP.Listen == "" {
		t.Errorf("uncommented: %+v", c)
	}
}

// The example configurations of released versions are still accepted. A release keeps its own (scripts/release).
func TestReleasedConfigurations(t *testing.T) {
	files, err := filepath.Glob("testdata/released/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if _, err := Load(Sources{File: file}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The settings on the page about alerts have no mistake.
func TestSettingsOfAlertsPage(t *testing.T) {
	content, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(content, -1)
	if len(blocks) < 3 {
		t.Fatalf("the page has %d examples", len(blocks))
	}
	t.Chdir(t.TempDir())
	for _, block := range blocks {
		write(t, "w.yaml", string(block[1]))
		if c, err := Load(Sources{File: "w.yaml"}); err != nil || len(c.Alerts.Receivers) == 0 {
			t.Errorf("%s: %v", block[1], err)
		}
	}
}
