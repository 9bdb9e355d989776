package cli

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestLicenses: NOTICE and licenses.txt list the modules that are linked on any system, and each has
// a license that our users can accept. WATERSHIP_TEST_UPDATE=1 writes both files.
func TestLicenses(t *testing.T) {
	t.Parallel()
	modules := linkedModules(t)
	if len(modules) < 20 {
		t.Fatalf("only %d modules are linked", len(modules))
	}
	notice := noticeText(modules)
	for path, want := range map[string]string{"../../NOTICE": notice, "licenses.txt": notice + licenseTexts(modules)} {
		if os.Getenv("WATERSHIP_TEST_UPDATE") == "1" {
			if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s does not describe the linked modules: WATERSHIP_TEST_UPDATE=1 go test ./internal/cli -run TestLicenses writes it", path)
		}
	}
}

// linkedModule is a module of which the program has a part.
type linkedModule struct {
	path, version string
	dirs          []string          // of its linked packages, up to its own
	files         map[string]string // licenses and notices, by name
	licenses      []string          // SPDX identifiers
}

// linkedModules returns the modules of all systems for which we build, and Go's library, by path.
func linkedModules(t *testing.T) []*linkedModule {
	t.Helper()
	modules := map[string]*linkedModule{"Go": {path: "The Go standard library", dirs: []string{runtimeRoot(t)}}}
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}\t{{.Dir}}", "../../cmd/watership")
			list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
			out, err := list.Output()
			if err != nil {
				t.Fatalf("go list for %s/%s: %v", system, arch, err)
			}
			for line := range strings.Lines(string(out)) {
				fields := strings.Split(strings.TrimSpace(line), "\t")
				if len(fields) != 4 {
					continue
				}
				m := modules[fields[0]]
				if m == nil {
					m = &linkedModule{path: fields[0], version: fields[1]}
					modules[fields[0]] = m
				}
				for dir := fields[3]; len(dir) >= len(fields[2]); dir = filepath.Dir(dir) {
					m.dirs = append(m.dirs, dir)
				}
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(modules), func(a, b *linkedModule) int { return strings.Compare(a.path, b.path) })
	for _, m := range sorted {
		m.readLicenses(t)
	}
	return sorted
}

func runtimeRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT, %s: %v", runtime.Version(), err)
	}
	return strings.TrimSpace(string(out))
}

// The logo of a module is no part of the program.
var (
	licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[sc]e|copying|notice|patents)`)
	noLicense   = regexp.MustCompile(`(?i)logo|\.go$`)
)

func (m *linkedModule) readLicenses(t *testing.T) {
	t.Helper()
	m.files = map[string]string{}
	slices.Sort(m.dirs)
	for _, dir := range slices.Compact(m.dirs) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() || !licenseFile.MatchString(e.Name()) || noLicense.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(m.dirs[0], filepath.Join(dir, e.Name()))
			m.files[filepath.ToSlash(name)] = plainText(text)
			lower := strings.ToLower(e.Name())
			if strings.HasPrefix(lower, "notice") || strings.HasPrefix(lower, "patents") {
				continue
			}
			found, err := identify(string(text))
			if err != nil {
				t.Errorf("%s %s: %s: %v", m.path, m.version, name, err)
			}
			m.licenses = append(m.licenses, found...)
		}
	}
	slices.Sort(m.licenses)
	if m.licenses = slices.Compact(m.licenses); len(m.licenses) == 0 {
		t.Errorf("%s %s has no license", m.path, m.version)
	}
}

// plainText is a text with the line ends of this repository, and without space at the end of lines.
func plainText(text []byte) string {
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for n, line := range lines {
		lines[n] = strings.TrimRight(line, " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}

// identify returns the SPDX identifiers of the licenses in a text. All that are known here are allowed: they let anybody use
// and distribute the program, and require no more than their text and, for MPL-2.0, a way to the source.
func identify(text string) ([]string, error) {
	words := strings.Join(strings.Fields(strings.ToLower(text)), " ")
	// MPL-2.0 lets its users choose one of these, and does not apply them.
	words = strings.ReplaceAll(words, "gnu general public license, version 2.0, the gnu lesser general public license, version 2.1, the gnu affero general public license", "")
	has := func(phrase string) bool { return strings.Contains(words, phrase) }
	for _, phrase := range []string{"gnu general public", "gnu lesser", "gnu affero", "gnu library", "server side public", "business source", "commons clause", "elastic license", "noncommercial"} {
		if has(phrase) {
			return nil, fmt.Errorf("a license that is not allowed: %q", phrase)
		}
	}
	var found []string
	for id, is := range map[string]bool{
		"Apache-2.0":   has("apache license") && has("version 2.0"),
		"MIT":          has("permission is hereby granted, free of charge, to any person obtaining a copy of this software"),
		"BSD-3-Clause": has("redistributions of source code must retain") && has("neither the name"),
		"BSD-2-Clause": has("redistributions of source code must retain") && !has("neither the name"),
		"MPL-2.0":      has("mozilla public license, version 2.0"),
		"ISC":          has("permission to use, copy, modify, and/or distribute this software for any purpose"),
		"blessing":     has("sqlite is public domain"),
	} {
		if is {
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("an unknown license: %.80q", words)
	}
	return found, nil
}

// noticeText is NOTICE: the modules with their licenses, and their own notices.
func noticeText(modules []*linkedModule) string {
	var b strings.Builder
	b.WriteString(`Watership
Copyright 2026 The Watership Authors

Licensed under the Apache License, Version 2.0 (see LICENSE).
The program contains parts of the modules below. Their license texts follow in the output of
"watership licenses". Their source is at https://pkg.go.dev/MODULE@VERSION.

`)
	for _, m := range modules {
		fmt.Fprintf(&b, "%s (%s)\n", strings.TrimSpace(m.path+" "+m.version), strings.Join(m.licenses, ", "))
	}
	for _, m := range modules {
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			if strings.HasPrefix(strings.ToLower(name), "notice") {
				fmt.Fprintf(&b, "\nNotice of %s:\n\n%s", m.path, m.files[name])
			}
		}
	}
	return b.String()
}

// licenseTexts has each text once, below the modules with that text.
func licenseTexts(modules []*linkedModule) string {
	owners := map[string][]string{}
	var texts []string
	for _, m := range modules {
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			if strings.HasPrefix(strings.ToLower(name), "notice") {
				continue
			}
			text := m.files[name]
			if owners[text] == nil {
				texts = append(texts, text)
			}
			owners[text] = append(owners[text], m.path+": "+name)
		}
	}
	var b strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(owners[text], "\n"), text)
	}
	return b.String()
}

func TestIdentifyLicenses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Apache License\nVersion 2.0, January 2004":                                 "Apache-2.0",
		"Redistributions of source code must retain the above. Neither the name of": "BSD-3-Clause",
		"Mozilla Public License, version 2.0 means either the GNU General Public License, Version 2.0, the GNU Lesser\nGeneral Public License, Version 2.1, the GNU Affero General Public License, Version 3.0": "MPL-2.0",
		"GNU LESSER GENERAL PUBLIC LICENSE": "",
		"All rights reserved.":              "",
		"Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software, under the Commons Clause": "",
	} {
		if found, err := identify(text); strings.Join(found, ", ") != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, found, err)
		}
	}
}
